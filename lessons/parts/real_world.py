"""Lessons 28 to 32: what happens to a run, and the whole of it once more."""

from __future__ import annotations

from ..checks.formula import Formula
from ..figures import Plots, Stacks
from ..lesson import Lesson, Twin

REAL_WORLD: tuple[Lesson, ...] = (
    Lesson(
        30,
        "inference",
        minutes=40,
        needs=(11, 12),
        checks=(
            Formula("cache_bytes"),
            Formula("prompt_flops"),
            Formula("decode_time"),
            Formula("critical_batch"),
        ),
        twin=Twin(
            ("inference.cache_bytes.all_heads", "inference.decode_time.compute_only"),
            (Formula("cache_bytes"), Formula("decode_time")),
        ),
        figures={
            "reads": Stacks("serving", "lessons.course.30_inference.facts:reads", "gigabytes"),
            "rates": Plots("rates", "lessons.course.30_inference.facts:rates", "batch", "tokens_rate"),
        },
        questions=3,
    ),
)
