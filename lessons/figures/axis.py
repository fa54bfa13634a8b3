"""Axes of curves: where a number lies on one, and which numbers stand beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Show: TypeAlias = Callable[[float], str]
_MOST = 8  # numbers below an axis


@dataclass(frozen=True)
class Axis:
    """From ``low`` to ``high``. ticks: the numbers that stand there, written by ``show``; name: what they are."""

    low: float
    high: float
    ticks: Sequence[float]
    show: Show
    log: bool = True
    name: str = ""

    def share(self, value: float) -> float:
        """Where a value lies: 0 at the low end, 1 at the high one."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def across(places: Sequence[float], show: Show, log: bool = True, name: str = "") -> Axis:
    """Below the curves, from the first place to the last: some of the places, or round numbers between them."""
    low, high = places[0], places[-1]
    if log:
        return Axis(low, high, places[:: -(-len(places) // _MOST)], show, log, name)
    step = _step(high - low)
    ticks = [step * at for at in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
    return Axis(low, high, ticks, show, log, name)


def upwards(values: Sequence[float], show: Show, log: bool = True, name: str = "", unit: float = 1.0) -> Axis:
    """At the left of the curves, around all values: powers of ten, or round numbers of the unit from zero on."""
    if log:
        low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        ticks = [10.0**power for power in range(low, max(high, low + 1) + 1)]
    else:
        step = _step(max(values) / unit) * unit
        ticks = [step * at for at in range(math.ceil(max(values) / step - 1e-9) + 1)]
    return Axis(ticks[0], ticks[-1], ticks, show, log, name)


def _step(length: float) -> float:
    """How far round numbers on such a length should be from each other."""
    rough = length / 6
    unit = 10.0 ** math.floor(math.log10(rough))
    return next(unit * many for many in (1, 2, 5, 10) if unit * many >= rough)
