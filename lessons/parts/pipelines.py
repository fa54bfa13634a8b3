"""Lessons 22 to 24: layers one behind the other on ranks, and the bubble between them."""

from __future__ import annotations

from ..checks.formula import Formula
from ..checks.score import Score
from ..checks.timetable import Size, Timetable
from ..checks.trial import Trial
from ..figures import Pipelines
from ..lesson import Lesson, Twin
from ..rules.pipelines import BY_HAND

# numbers of microbatches that ranks divide, as Megatron asks; a transfer takes a quarter of a stage's forward
_ROUNDS = (Size(2, 2, 1), Size(2, 2, 2), Size(3, 3, 2), Size(3, 6, 2), Size(2, 6, 3), Size(4, 4, 3), Size(4, 8, 2))
_TRANSFER = 0.25

PIPELINES: tuple[Lesson, ...] = (
    Lesson(
        22,
        "naive_and_gpipe",
        minutes=25,
        further=45,
        needs=(1,),
        checks=(
            Timetable("naive", "naive"),
            Timetable("gpipe", "gpipe"),
            Formula("bubble"),
            Trial("pipeline_step", rules=BY_HAND),
        ),
        extra=("pipeline_step",),
        twin=Twin(("pipelines.pipeline_step.mean_of_means",), (Trial("pipeline_step", rules=BY_HAND),)),
        figures={"naive": Pipelines(("naive",), 4, 2), "gpipe": Pipelines(("gpipe",), 4, 4)},
        questions=3,
    ),
    Lesson(
        23,
        "one_forward_one_backward",
        minutes=25,
        further=25,
        needs=(22,),
        checks=(
            Timetable("one_forward_one_backward", "1f1b"),
            Formula("in_flight"),
            Timetable("interleaved", "interleaved", p2p=_TRANSFER, proved=_ROUNDS, chunks=2),
            Formula("interleaved_bubble"),
        ),
        extra=("interleaved", "interleaved_bubble"),
        twin=Twin(("timetable.few",), (Timetable("one_forward_one_backward", "1f1b"),)),
        figures={
            "turns": Pipelines(("gpipe", "1f1b"), 4, 8),
            "interleaved": Pipelines(("interleaved",), 4, 4, chunks=2),
        },
        questions=3,
    ),
    Lesson(
        24,
        "zero_bubble",
        minutes=40,
        further=15,
        needs=(23,),
        checks=(
            Trial("backward_in_two"),
            Formula("split_bubble"),
            Timetable("golf", "1f1b", faster=True, alike=False),
            Score(
                "golf",
                ("gpipe", "1f1b", "zb-h1", "zb-h2", "zbv"),
                ((Size(4, 8), 1.0), (Size(8, 32), 1.0), (Size(4, 8), 0.5)),
            ),
        ),
        twin=Twin(("timetable.missing.owed",), (Timetable("golf", "1f1b", faster=True, alike=False),)),
        figures={"split": Pipelines(("1f1b", "zb-h1"), 4, 8), "none": Pipelines(("zb-h2",), 4, 8)},
        questions=3,
    ),
)
