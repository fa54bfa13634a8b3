"""Dissemination: a barrier in ceil(log2 n) steps; tell the rank 1 ahead, then 2 ahead, then 4, …

Who is known to have come, on 5 ranks::

    distance           1          2             4
    rank 0      0      0 4        0 4 3 2       all         A rank that has heard from the rank at distance d knows
    rank 1      1      1 0        1 0 4 3       all         of itself and the 2d−1 behind it. In the last step some
    rank 2      2      2 1        2 1 0 4       all         are heard of twice: no matter, as a barrier asks who is
    rank 3      3      3 2        3 2 1 0       all         there, not how often. No rank is special, and none goes
    rank 4      4      4 3        4 3 2 1       all         on before the last has come.

Source: Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization", 1988.
"""

from __future__ import annotations

from collections.abc import Iterator

from .registry import register
from .schedule import Reduce, Send, Step


@register("barrier", name="dissemination", chunks=1, symmetric=True)
def barrier(rank: int, size: int) -> Iterator[Step]:
    """Every step doubles the number of ranks that each rank knows of.

    Cost: log2n*alpha
    """
    for bit in range((size - 1).bit_length()):
        distance = 1 << bit
        yield Send(0, to=(rank + distance) % size), Reduce(0, source=(rank - distance) % size)
