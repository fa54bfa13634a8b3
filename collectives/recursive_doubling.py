"""Recursive doubling: exchange with the rank at distance 1, then 2, then 4, …; what everybody knows doubles each step.

All-reduce on 4 ranks, a, b, c, d their values; rank r's partner at a distance is r XOR distance::

    distance        1           2            ab is a+b. Both partners combine the same two partial sums in rank order,
    rank 0     a  ─┐   ab  ─┐   abcd         so all ranks end with the same bits; and the ranks of a partial sum are
    rank 1     b  ─┘   ab  ─│┐  abcd         neighbours, so that not even the order of the operands ever changes.
    rank 2     c  ─┐   cd  ─┘│  abcd
    rank 3     d  ─┘   cd  ──┘  abcd

Distances are powers of two, the number of ranks may not be. Then some ranks fold onto a neighbour first, and get the
result back from it; 6 ranks are 4 inner ones, which do as above::

    ranks       0    1 ◀─ 2    3    4 ◀─ 5        first    2 gives its data to 1, 5 to 4
    inner       0    1         2    3             then     0, 1, 3 and 4 run the 4-rank algorithm
                                                  last     1 sends the result to 2, 4 to 5

Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", 2005.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from .combinators import place
from .registry import register
from .schedule import Program, Recv, Reduce, Send, Step


def power_below(size: int) -> int:
    """The largest power of two that is at most ``size``."""
    return 1 << size.bit_length() - 1


@lru_cache(maxsize=8)
def teams(size: int) -> tuple[range, ...]:
    """A power of two of teams, each one or two neighbours, spread evenly; the first of team t is inner rank t."""
    inner = power_below(size)
    return tuple(range(t * size // inner, (t + 1) * size // inner) for t in range(inner))


def team_of(rank: int, size: int) -> range:
    """The team of a rank; its last is the one that folds, if there are two."""
    return teams(size)[((rank + 1) * power_below(size) - 1) // size]


def folded(
    program: Program,
    rank: int,
    size: int,
    there: Iterable[int],
    back: Iterable[int],
    get: type[Recv] | type[Reduce] = Reduce,
    blocks: bool = False,
) -> Iterator[Step]:
    """Let the first of each team run ``program``, on a power of two of ranks.

    Args:
        there: chunks that the second of a team gives to the first beforehand, who receives them by ``get``.
        back: chunks that it gets afterwards.
        blocks: chunk t of ``program`` stands for the chunks of all ranks of team t.
    """
    everyone, team = teams(size), team_of(rank, size)
    first, last = team[0], team[-1]
    if rank != first:
        yield tuple(Send(chunk, to=first) for chunk in there)
        yield tuple(Recv(chunk, source=first) for chunk in back)
        return
    if last != first:
        yield tuple(get(chunk, source=last) for chunk in there)
    firsts = [one[0] for one in everyone]
    yield from place(program(firsts.index(first), len(firsts)), firsts, everyone if blocks else None)
    if last != first:
        yield tuple(Send(chunk, to=last) for chunk in back)


def _exchange(rank: int, size: int) -> Iterator[Step]:
    for bit in range((size - 1).bit_length()):
        other = rank ^ (1 << bit)
        yield Send(0, to=other), Reduce(0, source=other)


def doubling(rank: int, size: int) -> Iterator[Step]:
    """All-gather, for a power of two of ranks."""
    for bit in range((size - 1).bit_length()):
        known = 1 << bit
        other = rank ^ known
        mine, theirs = (range(r // known * known, r // known * known + known) for r in (rank, other))
        yield *(Send(block, to=other) for block in mine), *(Recv(block, source=other) for block in theirs)


@register("all_reduce", name="recursive_doubling", chunks=1)
def all_reduce(rank: int, size: int) -> Iterator[Step]:
    """The fewest messages one after the other, each the whole buffer: best for small ones.

    Cost: (2*log2n - floor(log2(n)))*(alpha + S*beta) + log2n*S*gamma
    """
    yield from folded(_exchange, rank, size, there=[0], back=[0])


@register("all_gather", name="recursive_doubling")
def all_gather(rank: int, size: int) -> Iterator[Step]:
    """The blocks that a rank knows are always neighbours, so that each exchange is one piece of memory.

    Cost: log2n*alpha + (n-1)/n*S*beta
    Exact for: n a power of two; others take one message more, and at most 2.25*S*beta
    """
    last = team_of(rank, size)[-1]
    others = [block for block in range(size) if block != last]
    yield from folded(doubling, rank, size, there=[last], back=others, get=Recv, blocks=True)
