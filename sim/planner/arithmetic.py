"""Arithmetic that reads the same for integers of any size and for numpy arrays."""

from __future__ import annotations

import math
from typing import TypeVar, cast

Number = TypeVar("Number", int, float)


def ceil_div(amount: int, parts: int) -> int:
    """``amount / parts``, rounded up."""
    return -(-amount // parts)


def pick(condition: bool, yes: Number, no: Number) -> Number:
    """``yes if condition else no``, element by element."""
    return condition * yes + (1 - condition) * no


def least(a: Number, b: Number) -> Number:
    """The smaller one."""
    return pick(a < b, a, b)


def most(a: Number, b: Number) -> Number:
    """The larger one."""
    return pick(a > b, a, b)


def log2(a: float) -> float:
    """The binary logarithm."""
    if isinstance(a, int | float):
        return math.log2(a)
    import numpy as np  # only where arrays are: one plan needs none

    return cast("float", np.log2(a))


def root(a: float) -> float:
    """The square root."""
    return cast("float", a**0.5)
