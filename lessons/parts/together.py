"""Lessons 25 to 27: several parallelisms at once, and which of them to choose."""

from __future__ import annotations

from ..checks.compared import Compared
from ..checks.formula import Formula
from ..checks.planned import Planned
from ..checks.trial import Trial
from ..figures import Plot, Seats, Winners
from ..figures.winners import Case
from ..lesson import Lesson, Twin

TOGETHER: tuple[Lesson, ...] = (
    Lesson(
        25,
        "three_dimensions",
        minutes=35,
        further=45,
        needs=(17, 19, 22),
        checks=(
            Formula("coordinates"),
            Formula("zero_elements"),
            Trial("clip", ranks=(2, 4)),
            Formula("groups"),
            Formula("seeds"),
            Trial("reduce_tied", ranks=(2, 4)),
            Compared(),
        ),
        extra=("groups", "seeds", "reduce_tied"),
        twin=Twin(
            ("together.clip.twice", "together.reduce_tied.last_only"),
            (Trial("clip", ranks=(2, 4)), Trial("reduce_tied", ranks=(2, 4))),
        ),
        figures={"seats": Seats(pp=4, dp=2, tp=4, marked=5)},
        questions=3,
    ),
    Lesson(
        26,
        "choosing",
        minutes=45,
        further=15,
        needs=(25,),
        checks=(Formula("choose"), Formula("memory"), Formula("rate"), Formula("seconds"), Formula("best_plan")),
        twin=Twin(("plans.rate.stride_in_the_question",), (Formula("rate"), Formula("seconds"))),
        figures={
            "winners": Winners(
                (
                    Case("gpt2-xl", 1, 64),
                    Case("gpt3-13b", 1, 64),
                    Case("gpt3-13b", 8, 512),
                    Case("gpt3-175b", 1024, 2048),
                    Case("gpt3-175b", 1024, 2048, slower=8),
                )
            )
        },
        questions=3,
    ),
    Lesson(
        27,
        "scaling",
        minutes=25,
        further=15,
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
        figures={"steps": Plot("steps", "lessons.course.27_scaling.facts:steps", "gpus", "seconds")},
        questions=3,
    ),
)
