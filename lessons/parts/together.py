"""Lessons 25 to 27: several parallelisms at once, and which of them to choose."""

from __future__ import annotations

from ..checks.formula import Formula
from ..checks.planned import Planned
from ..figures import Plots
from ..lesson import Lesson, Twin

TOGETHER: tuple[Lesson, ...] = (
    Lesson(
        27,
        "scaling",
        minutes=40,
        needs=(6, 12),
        checks=(
            Formula("weak_time"),
            Formula("weak_efficiency"),
            Formula("strong_time"),
            Formula("strong_efficiency"),
            Formula("hidden_gpus"),
            Formula("fastest_gpus"),
            Planned(),
        ),
        twin=Twin(
            ("scaling.weak_time.whole_compute", "scaling.strong_time.shared_bytes"),
            (Formula("weak_time"), Formula("strong_time")),
        ),
        figures={"steps": Plots("steps", "lessons.course.27_scaling.facts:steps", "gpus", "seconds")},
        questions=3,
    ),
)
