"""A plain function of the learner's: numbers in, numbers out, compared with the library's own answer."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from ..answer import Answer, describe, own_lines
from ..catalogue import Catalogue
from ..diagnosis import Rule
from ..said import Finding, Passed, Said
from .deadline import Overdue, deadline

if TYPE_CHECKING:
    from .reference import Example, Reference

_SECONDS = 5.0  # for all calls of a function together


@dataclass(frozen=True)
class Formula:
    """``function(…)`` gives what the library gives, on the examples that ``references.py`` has under its name."""

    function: str
    rules: tuple[Rule, ...] = ()

    def cheap(self, answer: Answer, say: Catalogue) -> Iterator[Passed | Finding]:
        """Compare on every example; a mistake that explains all of them is named."""
        from .references import REFERENCES

        reference, function = REFERENCES[self.function], getattr(answer.module, self.function)
        unfit = _unfit(self.function, function, reference.examples[0])
        if unfit is not None:
            yield Finding(unfit, self.function)
            return
        came: list[tuple[Example, Any]] = []
        raised: list[Finding] = []
        example = reference.examples[0]
        try:
            with deadline(_SECONDS):
                for example in reference.examples:
                    try:
                        came.append((example, reference.settled(function(*deepcopy(example)))))
                    except Overdue:
                        raise
                    except BaseException as error:  # SystemExit too
                        raised.append(self._raised(example, error, answer))
        except Overdue as overdue:
            fields = {"call": show_call(self.function, example), "seconds": round(_SECONDS)}
            details = (own_lines(overdue, answer.path).rpartition("\n")[0],)  # where it stood, without our exception
            yield Finding(Said("formula.endless", fields), self.function, details=details)
            return
        yield self._verdict(reference, came, raised)

    def _verdict(
        self, reference: Reference, came: Sequence[tuple[Example, Any]], raised: Sequence[Finding]
    ) -> Passed | Finding:
        from .symptoms import Call, symptom

        calls = []
        for example, got in came:
            right = reference.answer(*example)
            calls.append(Call(show_call(self.function, example), got, right, reference.same(got, right, example)))
        if raised:
            # what is left may be few: one value could be that of many formulas
            mistake = self._mistake(reference, came) if len(came) > 1 else None
            first = raised[0]
            return Finding(mistake, self.function, details=(first.sentence, *first.details)) if mistake else first
        if all(call.got is None for call in calls):
            return Finding(Said("formula.none", {"function": self.function}), self.function)
        wrong = [call for call in calls if not call.ok]
        if not wrong:
            return Passed(Said("check.formula", {"function": self.function, "examples": len(calls)}), self.function)
        said = self._mistake(reference, came) or symptom(reference.kind, calls)
        if said is None:
            counts = {"wrong": len(wrong), "examples": len(calls)}
            said = Said("formula.value", {**wrong[0].fields, **counts, "right": repr(wrong[0].right)})
        return Finding(said, self.function)

    def _mistake(self, reference: Reference, came: Sequence[tuple[Example, Any]]) -> Said | None:
        """The known mistake that explains every value."""
        examples = [example for example, _ in came]
        left = [example for example in reference.examples if example not in examples]
        # of several, the one that has no value either where the learner's has none
        for name in sorted(reference.mistakes, key=lambda name: -sum(reference.raises(name, one) for one in left)):
            if all(reference.is_mistake(name, example, got) for example, got in came):
                return Said(name)
        return None

    def _raised(self, example: Example, error: BaseException, answer: Answer) -> Finding:
        fields = {"call": show_call(self.function, example), "error": describe(error)}
        name = "no_ranks" if _asks_for_ranks(error) else "raised"
        details = (own_lines(error, answer.path),)
        return Finding(Said(f"formula.{name}", fields), self.function, details=details)


def _unfit(name: str, function: Callable[..., Any], example: Example) -> Said | None:
    """What is wrong with a function that cannot be called with the arguments of an example, or returns nothing."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of a builtin
        return None
    try:
        signature.bind(*example)
    except TypeError:
        takes = list(signature.parameters)
        line = f"{name}({', '.join(takes)})"
        return Said("formula.signature", {"line": line, "takes": len(takes), "passes": len(example)})
    if inspect.isgeneratorfunction(function):
        return Said("formula.generator", {"call": show_call(name, example)})
    return None


def _asks_for_ranks(error: BaseException) -> bool:
    """Whether it was raised in ``torch.distributed``."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return {"torch", "distributed"} <= set(PurePath(last.filename).parts)


def show_call(function: str, arguments: tuple[object, ...]) -> str:
    """``ring_time(4, 1048576, 1e-05, 1e-09)``, as one would type it."""
    return f"{function}({', '.join(repr(one) for one in arguments)})"
