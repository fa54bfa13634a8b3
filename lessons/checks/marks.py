"""Data that tell where they come from: a value says which ranks' contributions are in it, how often, and from where.

The element at position p of rank r is ``16^r · 2^16 + p``, in units of 2⁻²⁰, so that none is a whole number. In a sum
the digits of the upper part (to base 16) count the contributions of each rank, and the lower part is the sum of their
positions: so one run on real ranks shows, for every element of the result, what the prover shows for a schedule. Exact
in float64 for up to 8 ranks and 240 positions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

BASE, SPAN, UNIT = 16, 1 << 16, 2.0**-20
MOST_POSITIONS = 240


def mark(rank: int, position: int) -> float:
    """The value of the element at ``position`` of ``rank``."""
    return float(int(BASE**rank) * SPAN + position) * UNIT


@dataclass(frozen=True)
class Origin:
    """counts[r]: how often rank r's contribution is in a value; position: of them all, None if they differ."""

    counts: tuple[int, ...]
    position: int | None

    @property
    def missing(self) -> tuple[int, ...]:
        return tuple(rank for rank, count in enumerate(self.counts) if count == 0)

    @property
    def repeated(self) -> tuple[int, ...]:
        return tuple(rank for rank, count in enumerate(self.counts) if count > 1)

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(rank for rank, count in enumerate(self.counts) if count)


def origin(value: float, size: int) -> Origin | None:
    """Where a value comes from; None if it is no sum of marks, such as memory that was never written. O(size)."""
    number = value / UNIT
    if not math.isfinite(number) or not -0.5 < number < BASE**size * SPAN or abs(number - round(number)) > 1e-3:
        return None
    upper, lower = divmod(round(number), SPAN)
    counts = []
    for _ in range(size):
        upper, count = divmod(upper, BASE)
        counts.append(count)
    total = sum(counts)
    if total == 0:
        return Origin(tuple(counts), None) if lower == 0 else None
    position, rest = divmod(lower, total)
    if lower > total * MOST_POSITIONS:
        return None
    return Origin(tuple(counts), None if rest else position)
