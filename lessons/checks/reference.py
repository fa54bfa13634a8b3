"""What a formula is compared with."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, MappingView
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, TypeAlias

Example: TypeAlias = tuple[Any, ...]
_MANY = 1000  # more items than any answer has


def near(value: object, other: object, tolerance: float = 1e-6) -> bool:
    """Equal numbers, up to what float32 loses. A str is no number."""
    try:
        one, two = float(value), float(other)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return False
    return not isinstance(value, str) and math.isclose(one, two, rel_tol=tolerance, abs_tol=1e-300)


def close(value: object, other: object, example: Example) -> bool:
    return near(value, other)


def plain(value: object) -> object:
    """Lists all the way down, in place of tuples and ranges."""
    return [plain(one) for one in value] if isinstance(value, (list, tuple, range)) else value


def same_lists(value: object, other: object, example: Example) -> bool:
    """The same items in the same order, whether lists or tuples."""
    return plain(value) == plain(other)


@dataclass(frozen=True)
class Reference:
    """One formula.

    answer: the library's. kind: what it gives. same: whether two values mean the same for an example; it takes whatever
    a learner returns. mistakes: id of the sentence → the formula that is mistaken so.
    exactly: the same for mistakes, where two values that are equally good may come from different ones.
    """

    examples: tuple[Example, ...]
    answer: Callable[..., Any]
    mistakes: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    kind: Literal["number", "pair", "order", "list", "word", "plan"] = "number"
    same: Callable[[object, object, Example], bool] = close
    exactly: Callable[[object, object, Example], bool] | None = None

    def settled(self, value: object) -> object:
        """What a learner returned, as plain numbers and lists, so that one can look at it more than once."""
        if callable(getattr(value, "tolist", None)):  # of numpy, or a tensor
            listed: object = value.tolist()  # type: ignore[attr-defined]
            one = self.kind == "number" and isinstance(listed, list) and len(listed) == 1
            return listed[0] if one and isinstance(listed, list) else listed
        if self.kind != "number" and isinstance(value, (Iterator, MappingView, range)):
            items: Iterable[object] = value  # type: ignore[assignment]
            value = list(islice(items, _MANY))
        if type(value) in (list, tuple):
            plain = [one.tolist() if callable(getattr(one, "tolist", None)) else one for one in value]  # type: ignore[attr-defined]
            return plain if isinstance(value, list) else tuple(plain)
        return value

    def is_mistake(self, name: str, example: Example, got: object) -> bool:
        """Whether ``got`` is what that mistake gives for the example."""
        try:
            return (self.exactly or self.same)(got, self.mistakes[name](*example), example)
        except ZeroDivisionError:  # the mistaken formula has no value there
            return False

    def raises(self, name: str, example: Example) -> bool:
        """Whether that mistake divides by zero there."""
        try:
            self.mistakes[name](*example)
        except ZeroDivisionError:
            return True
        return False
