"""The course: all lessons in order. A number without a lesson is one that is still being written."""

from __future__ import annotations

from .lesson import Lesson
from .parts.budget import BUDGET
from .parts.collectives import COLLECTIVES
from .parts.data_parallel import DATA_PARALLEL
from .parts.pipelines import PIPELINES
from .parts.real_world import REAL_WORLD
from .parts.sharding import SHARDING
from .parts.together import TOGETHER

COURSE: tuple[Lesson, ...] = (
    *COLLECTIVES,
    *DATA_PARALLEL,
    *BUDGET,
    *SHARDING,
    *PIPELINES,
    *TOGETHER,
    *REAL_WORLD,
)


def lesson_numbered(number: int) -> Lesson:
    """The lesson of that number.

    Raises:
        KeyError: there is none.
    """
    return {lesson.number: lesson for lesson in COURSE}[number]


def place(lesson: Lesson) -> int:
    """How many lessons come before it."""
    return [one.number for one in COURSE].index(lesson.number)
