"""Arithmetic that reads the same for integers of any size and for numpy arrays."""

from __future__ import annotations

import math
from typing import Any, TypeVar, cast

Number = TypeVar("Number", int, float)


def ceil_div(amount: int, parts: int) -> int:
    """``amount / parts``, rounded up."""
    return -(-amount // parts)


def pick(condition: bool, yes: Number, no: Number) -> Number:
    """``yes if condition else no``, element by element."""
    if isinstance(condition, bool | int):
        return yes if condition else no
    return cast("Number", _numpy().where(condition, yes, no))


def least(a: Number, b: Number) -> Number:
    """The smaller one."""
    if isinstance(a, int | float) and isinstance(b, int | float):
        return a if a < b else b
    return cast("Number", _numpy().minimum(a, b))


def most(a: Number, b: Number) -> Number:
    """The larger one."""
    if isinstance(a, int | float) and isinstance(b, int | float):
        return a if a > b else b
    return cast("Number", _numpy().maximum(a, b))


def log2(a: float) -> float:
    """The binary logarithm."""
    if isinstance(a, int | float):
        return math.log2(a)
    return cast("float", _numpy().log2(a))


def root(a: float) -> float:
    """The square root."""
    return cast("float", a**0.5)


def _numpy() -> Any:
    """Only where arrays are: one plan needs none."""
    import numpy

    return numpy
