"""Lessons 17 to 21: ZeRO, and layers that are split over ranks."""

from __future__ import annotations

from ..checks.formula import Formula
from ..checks.trial import Trial
from ..figures import Gathered, Shards
from ..lesson import Lesson, Twin

SHARDING: tuple[Lesson, ...] = (
    Lesson(
        17,
        "zero_1_and_2",
        minutes=60,
        needs=(5,),
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
        minutes=50,
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
)
