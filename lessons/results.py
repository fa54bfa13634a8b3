"""What a learner has got so far: lessons done, predictions beside the truth, answers, and what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .lesson import Lesson
from .manifest import COURSE, core_minutes
from .page import shown
from .reading import Prediction, Reading
from .workspace import State, Workspace


@dataclass(frozen=True)
class Guess:
    """A number that the learner has written down. key: of its question in the lesson's file of the catalogue."""

    key: str
    question: str
    answer: str
    truth: str
    right: bool


@dataclass(frozen=True)
class Measurement:
    """What a check has shown of the learner's machine: a sentence, a table in lines, and the same for programs."""

    text: str
    lines: Sequence[str]
    numbers: Mapping[str, Any]


@dataclass(frozen=True)
class Result:
    """Of one lesson. when: it passed, or empty. quiz: how many answers were right, of how many; None without any."""

    lesson: Lesson
    title: str
    state: State
    when: str
    mended: bool
    hints: int
    quiz: tuple[int, int] | None
    guesses: Sequence[Guess]
    measured: Sequence[Measurement]

    @property
    def is_empty(self) -> bool:
        return self.state is State.OPEN and not self.quiz


@dataclass(frozen=True)
class Results:
    """Of the whole course. Minutes are those that lessons are meant to take."""

    lessons: Sequence[Result]

    @property
    def done(self) -> list[Result]:
        """The lessons that have passed, without the tour."""
        return [one for one in self.lessons if one.state is State.PASSED and one.lesson.number]

    @property
    def all(self) -> int:
        return sum(one.lesson.number > 0 for one in self.lessons)

    @property
    def core(self) -> tuple[int, int]:
        """Minutes of the core path that are done, and all of them."""
        passed = (one.lesson for one in self.lessons if one.state is State.PASSED)
        return sum(lesson.minutes for lesson in passed if lesson.core), core_minutes()

    @property
    def guesses(self) -> tuple[int, int]:
        """How many numbers were right, and how many there are."""
        found = [guess.right for one in self.lessons for guess in one.guesses]
        return sum(found), len(found)


def results_of(workspace: Workspace) -> Results:
    """As the learner's folder has it now."""
    return Results([_result(workspace, lesson) for lesson in COURSE])


def _result(workspace: Workspace, lesson: Lesson) -> Result:
    record = workspace.progress.lesson(lesson.name)
    quiz, passed = record.get("quiz", {}), record.get("passed", {})
    return Result(
        lesson,
        workspace.title(lesson),
        workspace.state(lesson),
        str(passed.get("when", "")).partition("T")[0],
        bool(lesson.twin) and workspace.state(lesson, broken=True) is State.PASSED,
        int(record.get("hints", 0)),
        (int(quiz.get("right", 0)), int(quiz.get("of", 0))) if quiz else None,
        list(_guesses(Reading(lesson, workspace.say), quiz.get("answers", {}))),
        [Measurement(one["text"], one["lines"], one["numbers"]) for one in record.get("measured", [])],
    )


def _guesses(reading: Reading, answers: Mapping[str, Mapping[str, Any]]) -> list[Guess]:
    """Those whose question there still is."""
    asked = reading.asked if answers else {}
    return [
        Guess(
            key,
            question.question,
            str(answers[key]["answer"]),
            f"{shown(question.answer)} {question.unit}".strip(),
            bool(answers[key]["right"]),
        )
        for key, question in asked.items()
        if key in answers and isinstance(question, Prediction)
    ]
