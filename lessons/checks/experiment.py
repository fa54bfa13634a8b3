"""What a function on real ranks is held against: the same, computed in one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import Tensor

Example: TypeAlias = Any  # numbers and texts, from which everything else is made
PerRank: TypeAlias = Callable[[Example, int], Sequence[Any]]  # an example and a number of ranks → a value for each rank


def returned(arguments: tuple[Any, ...], value: Any) -> Any:
    """What the function returned; its arguments do not matter."""
    return value


@dataclass(frozen=True)
class Experiment:
    """One function on real ranks.

    examples: for n ranks; the first of them is also priced. arguments: (example, rank, ranks) → what that rank's call
    is given, made anew for every call. outcome: (the arguments after the call, what it returned) → what is compared: a
    tensor, a number, a text, or dicts and sequences of these. expected: what each rank's outcome should be.
    mistakes: id of the sentence → what each rank's outcome is then. sent: the bytes that a rank may send at most, a
    collective counted as a ring sends it. memory: the bytes of tensors that a call may allocate, at the worst moment.
    tolerance: relative to the largest number of a tensor. optimizes: it uses ``torch.optim``, which imports a second's
    worth at its first use: that is done before ranks are forked.
    """

    examples: Callable[[int], Sequence[Example]]
    arguments: Callable[[Example, int, int], tuple[Any, ...]]
    expected: PerRank
    mistakes: Mapping[str, PerRank] = field(default_factory=dict)
    outcome: Callable[[tuple[Any, ...], Any], Any] = returned
    sent: Callable[[Example, int], float] | None = None
    memory: Callable[[Example, int], float] | None = None
    tolerance: float = 1e-9
    optimizes: bool = False

    def warm(self) -> None:
        """Import what ranks would import, each for itself."""
        if self.optimizes:
            torch.optim.SGD([torch.zeros(1, requires_grad=True)])

    def same(self, one: Any, other: Any) -> bool:
        return next(differences(one, other, self.tolerance), None) is None


@dataclass(frozen=True)
class Difference:
    """A part of an outcome that is not as it should be. part: where it stands, ``["weight"]``; empty for the whole."""

    part: str
    got: Any
    right: Any


def differences(got: Any, right: Any, tolerance: float, part: str = "") -> Iterator[Difference]:
    """The parts that differ, in order; a part that is missing is ``None``."""
    if isinstance(right, Mapping):
        keys = got.keys() if isinstance(got, Mapping) else None
        if keys is None or keys - right.keys():
            yield Difference(part, got, right)
            return
        for key, value in right.items():
            yield from differences(got.get(key), value, tolerance, f"{part}[{key!r}]")
    elif isinstance(right, (list, tuple)):
        if not isinstance(got, (list, tuple)) or len(got) != len(right):
            yield Difference(part, got, right)
            return
        for place, (one, other) in enumerate(zip(got, right, strict=True)):
            yield from differences(one, other, tolerance, f"{part}[{place}]")
    elif not _alike(got, right, tolerance):
        yield Difference(part, got, right)


def _alike(got: Any, right: Any, tolerance: float) -> bool:
    if isinstance(right, Tensor):
        if not isinstance(got, Tensor) or got.shape != right.shape or got.dtype != right.dtype:
            return False
        if not right.is_floating_point():
            return bool((got == right).all())
        finite = right.detach()[right.isfinite()]
        scale = float(finite.abs().max()) if finite.numel() else 0.0
        # a mistake may give NaN, and is known by it; nothing that is right does
        return torch.allclose(got, right, rtol=0.0, atol=tolerance * max(scale, 1e-30), equal_nan=True)
    if isinstance(right, float):
        number = isinstance(got, (int, float)) or (isinstance(got, Tensor) and got.numel() == 1)
        return number and abs(float(got) - right) <= tolerance * max(abs(right), 1e-30)
    return type(got) is type(right) and bool(got == right)
