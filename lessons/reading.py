"""A lesson as it is read: its text in one language, with the numbers from ``facts.py`` in it."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from .catalogue import Catalogue
from .lesson import Lesson

SECTIONS = ("problem", "picture", "formula", "task", "real")
GRADES = ("one", "two", "three")
CHOICES = ("a", "b", "c", "d")

Facts = Mapping[str, str | int | float]


@dataclass(frozen=True)
class Prediction:
    """A question whose answer is a number: the one before reading on, or one to calculate. tolerance: of the answer,
    relative; 0 is exact.
    """

    question: str
    unit: str
    why: str
    answer: float
    tolerance: float


@dataclass(frozen=True)
class Question:
    """choices: letter → text; right: a letter."""

    question: str
    choices: Mapping[str, str]
    right: str
    why: str


class Reading:
    """The texts of a lesson, as Markdown.

    Raises (all of it):
        KeyError: a sentence, or a number in it, is missing.
    """

    def __init__(self, lesson: Lesson, say: Catalogue) -> None:
        self.lesson, self.say = lesson, say

    @functools.cached_property
    def facts(self) -> Facts:
        return facts_of(self.lesson)

    @property
    def title(self) -> str:
        return self.say(f"course.{self.lesson.number:02}.title")

    @property
    def proves(self) -> str:
        return self.say(f"course.{self.lesson.number:02}.proves")

    @property
    def where(self) -> str:
        """Its number, how long it takes, which lessons it builds on, and whether it belongs to the core path."""
        number, minutes, further = self.lesson.number, self.lesson.minutes, self.lesson.further
        parts = [self.say("page.lesson", number=number), self.say("page.minutes", minutes=minutes)]
        parts += [self.say("page.further", minutes=further)] if further else []
        needs = [needed for needed in self.lesson.needs if needed]  # nothing is lost without the tour
        parts += [self.say("page.needs", lessons=needs)] if needs else []
        return " · ".join([*parts, *([f"★\u00a0{self.say('page.core')}"] if self.lesson.core else [])])

    def has(self, key: str) -> bool:
        return self.say.has(f"{self.lesson.table}.{key}")

    def text(self, key: str) -> str:
        return self.say(f"{self.lesson.table}.{key}", **self.facts)

    def heading(self, section: str) -> str:
        return self.say(f"page.section.{section}")

    def sections(self) -> list[str]:
        return [section for section in SECTIONS if self.has(section)]

    @functools.cached_property
    def prediction(self) -> Prediction | None:
        return self._number("predict", "predict")

    @functools.cached_property
    def calculations(self) -> list[Prediction]:
        """To calculate oneself: ``calculate.1`` …, with facts ``calculate_1_answer`` and ``calculate_1_tolerance``."""
        found: list[Prediction] = []
        while (one := self._number(f"calculate.{len(found) + 1}", f"calculate_{len(found) + 1}")) is not None:
            found.append(one)
        return found

    def _number(self, key: str, fact: str) -> Prediction | None:
        if not self.has(f"{key}.question"):
            return None
        question, unit, why = (self.text(f"{key}.{part}") for part in ("question", "unit", "why"))
        return Prediction(
            question, unit, why, float(self.facts[f"{fact}_answer"]), float(self.facts[f"{fact}_tolerance"])
        )

    @functools.cached_property
    def questions(self) -> list[Question]:
        found = []
        for number in range(1, self.lesson.questions + 1):
            if self.has(f"quiz.{number}.question"):
                choices = {
                    letter: self.text(f"quiz.{number}.{letter}")
                    for letter in CHOICES
                    if self.has(f"quiz.{number}.{letter}")
                }
                question, right, why = (self.text(f"quiz.{number}.{key}") for key in ("question", "right", "why"))
                found.append(Question(question, choices, right, why))
        return found

    @functools.cached_property
    def asked(self) -> dict[str, Prediction | Question]:
        """All that a learner can answer, by its key in the catalogue, in the order in which it is asked."""
        first = {"predict": self.prediction} if self.prediction else {}
        questions = {f"quiz.{i}": one for i, one in enumerate(self.questions, 1)}
        return {**first, **questions, **{f"calculate.{i}": one for i, one in enumerate(self.calculations, 1)}}

    @functools.cached_property
    def hints(self) -> dict[str, list[str]]:
        """The function that they are for, or empty → hints, from a nudge to near-code, in their order."""
        texts = {**Catalogue().table(self.lesson.table), **self.say.table(self.lesson.table)}
        keys = [key.removeprefix("hints.") for key in texts if key.startswith("hints.")]
        functions = sorted({key.rpartition(".")[0] for key in keys}, key=["", *self.lesson.functions].index)
        return {
            function: [
                self.text(f"hints.{function}.{grade}" if function else f"hints.{grade}")
                for grade in GRADES
                if (f"{function}.{grade}" if function else grade) in keys
            ]
            for function in functions
        }


def duration(say: Catalogue, minutes: int) -> str:
    """Minutes as one says them."""
    hours, rest = divmod(minutes, 60)
    if not rest and hours:
        return say("page.whole_hours", hours=hours)
    return say("page.hours", hours=hours, minutes=rest) if hours else say("page.minutes", minutes=rest)


def facts_of(lesson: Lesson) -> Facts:
    """What ``facts()`` of the lesson's ``facts.py`` returns; nothing where there is no such file."""
    if not (files(__package__) / "course" / lesson.folder / "facts.py").is_file():
        return {}
    found: Facts = importlib.import_module(f"{__package__}.course.{lesson.folder}.facts").facts()
    return found
