"""Halving and doubling: exchange half of the buffer with the rank farthest away, then a quarter, then an eighth, …

Reduce-scatter of 8 chunks on 8 ranks, and how rank 5 (binary 101) gets there::

    distance        4            2           1          rank r's partner: r XOR distance. The half that holds
    rank 5  send   0–3 ▶1       6–7 ▶7      4 ▶4        chunk r stays and is reduced, the other half leaves.
            add    4–7 ◀1       4–5 ◀7      5 ◀4
    left to do     4–7          4–5         5           1/2 + 1/4 + 1/8 = 7/8 of the buffer in 3 messages.

All-reduce goes the same way back, distance 1, 2, 4, with finished chunks (recursive doubling). Far first and near last
keep the chunks of every message next to each other in memory. Each chunk is summed on one rank and then copied, so all
ranks end with the same bits. Ranks beyond a power of two fold onto a neighbour first and get the result from it at the
end, as in ``recursive_doubling``, at the price of two more messages with the whole buffer.

Source: Rabenseifner, "Optimization of collective reduction operations", 2004.
"""

from __future__ import annotations

from collections.abc import Iterator

from .recursive_doubling import doubling, folded, power_below, team_of
from .registry import register
from .schedule import Reduce, Send, Step


def _halving(rank: int, size: int) -> Iterator[Step]:
    distance = size // 2
    while distance:
        partner = rank ^ distance
        mine, theirs = rank // distance * distance, partner // distance * distance
        yield (
            *(Send(theirs + i, to=partner) for i in range(distance)),
            *(Reduce(mine + i, source=partner) for i in range(distance)),
        )
        distance //= 2


def _there_and_back(rank: int, size: int) -> Iterator[Step]:
    yield from _halving(rank, size)
    yield from doubling(rank, size)


@register("reduce_scatter", name="halving_doubling")
def reduce_scatter(rank: int, size: int) -> Iterator[Step]:
    """Recursive halving: after each step, half as many chunks are left to do.

    Cost: log2n*alpha + (n-1)/n*S*beta + (n-1)/n*S*gamma
    Exact for: n a power of two; others take one message more, and at most 2.25*S*(beta + gamma)
    """
    yield from folded(_halving, rank, size, there=range(size), back=[team_of(rank, size)[-1]], blocks=True)


@register("all_reduce", name="halving_doubling", chunks=power_below)
def all_reduce(rank: int, size: int) -> Iterator[Step]:
    """As few messages as a tree, as few bytes as a ring, for powers of two.

    Cost: 2*log2n*alpha + (1 - 1/2**floor(log2(n)) + log2n - floor(log2(n)))*S*(2*beta + gamma)
    """
    whole = range(power_below(size))
    yield from folded(_there_and_back, rank, size, there=whole, back=whole)
