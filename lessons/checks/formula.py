"""A plain function of the learner's: numbers in, numbers out, compared with the library's own answer."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass

from ..answer import Answer, describe, own_lines
from ..catalogue import Catalogue
from ..diagnosis import Rule
from ..said import Finding, Passed, Said


@dataclass(frozen=True)
class Formula:
    """``function(…)`` gives what the library gives, on the examples that ``references.py`` has under its name."""

    function: str
    rules: tuple[Rule, ...] = ()

    def cheap(self, answer: Answer, say: Catalogue) -> Iterator[Passed | Finding]:
        """Compare on every example; a mistake that explains all of them is named."""
        from .references import REFERENCES

        reference, function = REFERENCES[self.function], getattr(answer.module, self.function)
        answers = []
        for example in reference.examples:
            try:
                answers.append(function(*deepcopy(example)))
            except Exception as error:
                fields = {"call": show_call(self.function, example), "error": describe(error)}
                details = (own_lines(error, answer.path),)
                yield Finding(Said("formula.raised", fields), self.function, details=details)
                return
        if all(value is None for value in answers):
            yield Finding(Said("formula.none", {"function": self.function}), self.function)
            return
        wrong = [
            (example, value)
            for example, value in zip(reference.examples, answers, strict=True)
            if not reference.same(value, reference.answer(*example), example)
        ]
        if not wrong:
            count = len(reference.examples)
            yield Passed(Said("check.formula", {"function": self.function, "examples": count}), self.function)
            return
        for name, mistaken in reference.mistakes.items():
            if all(
                reference.same(value, mistaken(*example), example)
                for example, value in zip(reference.examples, answers, strict=True)
            ):
                yield Finding(Said(f"formula.{name}"), self.function)
                return
        example, value = wrong[0]
        said: dict[str, object] = {
            "call": show_call(self.function, example),
            "got": repr(value)[:120],
            "right": repr(reference.answer(*example)),
            "wrong": len(wrong),
            "examples": len(answers),
        }
        yield Finding(Said("formula.value", said), self.function)


def show_call(function: str, arguments: tuple[object, ...]) -> str:
    """``ring_time(4, 1048576, 1e-05, 1e-09)``, as one would type it."""
    return f"{function}({', '.join(repr(one) for one in arguments)})"
