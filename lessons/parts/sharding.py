"""Lessons 17 to 21: ZeRO, and layers that are split over ranks."""

from __future__ import annotations

from ..checks.formula import Formula
from ..checks.trial import Trial
from ..figures import Blocks, Gathered, LayerTimes, Matrix, Shards
from ..lesson import Lesson, Twin
from ..rules.overflow import overflow

_X, _Y = Matrix("X", "s × h", "all"), Matrix("Y", "s × h", "all")
_PAIR = (
    (
        "tensor.figure.forward",
        (
            _X,
            "f ·",
            Matrix("A", "h × 4h", "columns", width=2),
            "→",
            Matrix("GELU(XA)", "s × 4h", "columns", width=2),
            "·",
            Matrix("B", "4h × h", "rows", height=2),
            "=",
            Matrix("Y", "s × h", "sum"),
            "g →",
            _Y,
        ),
    ),
    (
        "tensor.figure.backward",
        (
            Matrix("∂Y", "s × h", "all"),
            "g ·",
            Matrix("Bᵀ", "h × 4h", "columns", width=2),
            "→",
            Matrix("∂(XA)", "s × 4h", "columns", width=2),
            "·",
            Matrix("Aᵀ", "4h × h", "rows", height=2),
            "=",
            Matrix("∂X", "s × h", "sum"),
            "f →",
            Matrix("∂X", "s × h", "all"),
        ),
    ),
)
_ROWS_FIRST = (
    (
        "tensor.figure.rows_first",
        (
            Matrix("X", "s × h", "columns"),
            "·",
            Matrix("A", "h × 4h", "rows", width=2),
            "=",
            Matrix("XA", "s × 4h", "sum", width=2),
            "Σ →",
            Matrix("GELU(XA)", "s × 4h", "all", width=2),
            "·",
            Matrix("B", "4h × h", "columns", height=2),
            "=",
            Matrix("Y", "s × h", "columns"),
            "⇉",
            _Y,
        ),
    ),
)
_ATTENTION = (
    (
        "tensor.figure.attention",
        (
            _X,
            "f ·",
            Matrix("", "h × 3h", "columns", width=3, parts=3, labels=("Q", "K", "V")),
            "→",
            Matrix("heads", "s × h", "columns"),
            "·",
            Matrix("O", "h × h", "rows"),
            "=",
            Matrix("Y", "s × h", "sum"),
            "g →",
            _Y,
        ),
    ),
)
_QKV = ("q0", "q1", "k0", "k1", "v0", "v1")  # of two heads
_FUSED = (
    ("tensor.figure.fused", (Matrix("", "h × 3h", "columns", width=6, parts=3, labels=_QKV),)),
    ("tensor.figure.contiguous", (Matrix("", "h × 3h", "columns", width=6, labels=_QKV),)),
)
_SEQUENCE = (
    (
        "tensor.figure.sequence",
        (
            Matrix("X", "s × h", "rows"),
            "gather →",
            _X,
            "·",
            Matrix("A", "h × 4h", "columns", width=2),
            "→",
            Matrix("GELU(XA)", "s × 4h", "columns", width=2),
            "·",
            Matrix("B", "4h × h", "rows", height=2),
            "=",
            Matrix("Y", "s × h", "sum"),
            "scatter →",
            Matrix("Y", "s × h", "rows"),
        ),
    ),
)
_VOCABULARY = (
    (
        "tensor.figure.embedding",
        (
            Matrix("tokens", "s", "all"),
            "→",
            Matrix("E", "v × h", "rows", height=2),
            "=",
            Matrix("X", "s × h", "sum"),
            "g →",
            _X,
        ),
    ),
    (
        "tensor.figure.logits",
        (
            _X,
            "f ·",
            Matrix("Eᵀ", "h × v", "columns", width=2),
            "=",
            Matrix("logits", "s × v", "columns", width=2),
        ),
    ),
)

SHARDING: tuple[Lesson, ...] = (
    Lesson(
        17,
        "zero_1_and_2",
        minutes=65,
        further=20,
        needs=(5, 11),
        checks=(
            Formula("zero_bytes"),
            Trial("flatten_padded"),
            Trial("zero1_train"),
            Trial("zero2_reduce"),
            Trial("shards_norm"),
        ),
        twin=Twin(
            ("zero.zero1_train.tail", "zero.shards_norm.replicated"), (Trial("zero1_train"), Trial("shards_norm"))
        ),
        figures={"stages": Shards(ranks=4)},
        questions=3,
    ),
    Lesson(
        18,
        "zero_3_and_offload",
        minutes=45,
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
        minutes=55,
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
        figures={"pair": Blocks(_PAIR), "rows_first": Blocks(_ROWS_FIRST)},
        questions=3,
    ),
    Lesson(
        20,
        "mlp_and_attention",
        minutes=40,
        further=15,
        needs=(19,),
        checks=(Trial("mlp"), Trial("qkv_part"), Trial("attention"), Trial("dropouts")),
        twin=Twin(("tensor.qkv_part.rows", "tensor.dropouts.same"), (Trial("qkv_part"), Trial("dropouts"))),
        figures={
            "attention": Blocks(_ATTENTION),
            "fused": Blocks(_FUSED),
            "times": LayerTimes((("h100", "dgx-h100"), ("a100", "p4d"))),
        },
        questions=3,
    ),
    Lesson(
        21,
        "sequence_and_vocabulary",
        minutes=80,
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
        figures={"sequence": Blocks(_SEQUENCE), "vocabulary": Blocks(_VOCABULARY)},
        questions=3,
    ),
)
