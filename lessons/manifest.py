"""The course: its parts in order, and all lessons. A number without a lesson is one that is still being written."""

from __future__ import annotations

from dataclasses import replace

from .lesson import Lesson
from .parts.budget import BUDGET
from .parts.collectives import COLLECTIVES
from .parts.data_parallel import DATA_PARALLEL
from .parts.pipelines import PIPELINES
from .parts.real_world import REAL_WORLD
from .parts.sharding import SHARDING
from .parts.together import TOGETHER

# The core path, marked with a star: what everybody should know. How long it takes is counted: CONTRIBUTING.md says how.
CORE = frozenset({*range(9), 11, 12, 13, 17, 18, 19, 22, 23, 25, 26, 32})
# The parts by name (their titles are ``course.part.…``), without those that are still being written.
PARTS: dict[str, tuple[Lesson, ...]] = {
    name: tuple(replace(lesson, core=lesson.number in CORE) for lesson in lessons)
    for name, lessons in (
        ("collectives", COLLECTIVES),
        ("data_parallel", DATA_PARALLEL),
        ("budget", BUDGET),
        ("sharding", SHARDING),
        ("pipelines", PIPELINES),
        ("together", TOGETHER),
        ("real_world", REAL_WORLD),
    )
    if lessons
}
COURSE: tuple[Lesson, ...] = tuple(lesson for lessons in PARTS.values() for lesson in lessons)


def lesson_numbered(number: int) -> Lesson:
    """The lesson of that number.

    Raises:
        KeyError: there is none.
    """
    return {lesson.number: lesson for lesson in COURSE}[number]


def place(lesson: Lesson) -> int:
    """How many lessons come before it."""
    return [one.number for one in COURSE].index(lesson.number)


def core_minutes() -> int:
    """How long the core path takes: text, code, checks and questions of its lessons."""
    return sum(lesson.minutes for lesson in COURSE if lesson.core)


def core_further() -> int:
    """How long what is beside it takes: twins, what is to calculate, real systems."""
    return sum(lesson.further for lesson in COURSE if lesson.core)
