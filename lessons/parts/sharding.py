"""Lessons 17 to 21: ZeRO, and layers that are split over ranks."""

from __future__ import annotations

from ..checks.formula import Formula
from ..checks.trial import Trial
from ..figures import Blocks, Gathered, LayerTimes, Shards, chains
from ..lesson import Lesson, Twin
from ..rules.overflow import overflow

SHARDING: tuple[Lesson, ...] = (
    Lesson(
        17,
        "zero_1_and_2",
        minutes=35,
        further=30,
        needs=(5, 11),
        checks=(
            Formula("zero_bytes"),
            Trial("flatten_padded"),
            Trial("zero1_train"),
            Trial("zero2_reduce"),
            Trial("shards_norm"),
        ),
        extra=("zero2_reduce", "shards_norm"),
        twin=Twin(
            ("zero.zero1_train.tail", "zero.shards_norm.replicated"), (Trial("zero1_train"), Trial("shards_norm"))
        ),
        figures={"stages": Shards(ranks=4)},
        questions=3,
    ),
    Lesson(
        18,
        "zero_3_and_offload",
        minutes=35,
        further=20,
        needs=(17,),
        checks=(
            Trial("gather_layer"),
            Trial("zero3_gradients"),
            Formula("least_bytes"),
            Formula("cards_needed"),
            Formula("offload_bytes"),
        ),
        twin=Twin(
            ("trial.dear.memory", "zero.cards_needed.states_only"), (Trial("zero3_gradients"), Formula("cards_needed"))
        ),
        figures={"layers": Gathered()},
        questions=3,
    ),
    Lesson(
        19,
        "column_and_row",
        minutes=30,
        further=20,
        needs=(5,),
        checks=(
            Trial("own_part"),
            Trial("f"),
            Trial("g"),
            Trial("column_linear"),
            Trial("row_linear"),
            Formula("tensor_parallel_bytes"),
        ),
        extra=("tensor_parallel_bytes",),
        twin=Twin(
            ("tensor.column_linear.no_f", "tensor.row_linear.bias_each"),
            (Trial("column_linear"), Trial("row_linear")),
        ),
        pieces={
            "f": ("f", "parallel.tensor.functional:copy"),
            "g": ("g", "parallel.tensor.functional:reduce"),
            "column_linear": ("column_linear", "lessons.course.19_column_and_row.solution:column_linear"),
            "row_linear": ("row_linear", "lessons.course.19_column_and_row.solution:row_linear"),
        },
        figures={"pair": Blocks(chains.PAIR), "rows_first": Blocks(chains.ROWS_FIRST)},
        questions=3,
    ),
    Lesson(
        20,
        "mlp_and_attention",
        minutes=30,
        further=15,
        needs=(19,),
        checks=(Trial("mlp"), Trial("qkv_part"), Trial("attention"), Trial("dropouts")),
        twin=Twin(("tensor.qkv_part.rows", "tensor.dropouts.same"), (Trial("qkv_part"), Trial("dropouts"))),
        figures={
            "attention": Blocks(chains.ATTENTION),
            "fused": Blocks(chains.FUSED),
            "times": LayerTimes((("h100", "dgx-h100"), ("a100", "p4d"))),
        },
        questions=3,
    ),
    Lesson(
        21,
        "sequence_and_vocabulary",
        minutes=55,
        further=15,
        needs=(19, 20),
        checks=(
            Trial("gather_places"),
            Trial("scatter_sum"),
            Trial("embed"),
            Trial("cross_entropy", rules=(overflow,)),
            Formula("layer_activations"),
        ),
        twin=Twin(
            ("tensor.embed.clamped", "tensor.cross_entropy.own_max"),
            (Trial("embed"), Trial("cross_entropy", rules=(overflow,))),
        ),
        figures={"sequence": Blocks(chains.SEQUENCE), "vocabulary": Blocks(chains.VOCABULARY)},
        questions=3,
    ),
)
