"""Arithmetic that reads the same for integers of any size and for numpy arrays."""

from __future__ import annotations

from typing import TypeVar

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
