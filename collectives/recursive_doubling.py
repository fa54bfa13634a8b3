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

from .combinators import place
from .registry import register
from .schedule import Program, Recv, Reduce, Send, Step


def power_below(size: int) -> int:
    """The largest power of two that is at most ``size``."""
    return 1 << size.bit_length() - 1


def team(inner: int, size: int) -> range:
    """The one or two ranks, spread evenly, of which the first acts as rank ``inner`` of ``power_below(size)``."""
    return range(inner * size // power_below(size), (inner + 1) * size // power_below(size))


def partner(rank: int, size: int) -> int:
    """The last of the rank's team: the one that folds, if there are two."""
    return team(((rank + 1) * power_below(size) - 1) // size, size)[-1]


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
        blocks: chunk c of ``program`` stands for the chunks of all ranks of team c.
    """
    teams = [team(inner, size) for inner in range(power_below(size))]
    me = next(inner for inner, ranks in enumerate(teams) if rank in ranks)
    first, last = teams[me][0], teams[me][-1]
    if rank != first:
        yield tuple(Send(chunk, to=first) for chunk in there)
        yield tuple(Recv(chunk, source=first) for chunk in back)
        return
    if last != first:
        yield tuple(get(chunk, source=last) for chunk in there)
    yield from place(program(me, len(teams)), [ranks[0] for ranks in teams], teams if blocks else None)
    if last != first:
        yield tuple(Send(chunk, to=last) for chunk in back)


def _combine(rank: int, size: int) -> Iterator[Step]:
    for bit in range((size - 1).bit_length()):
        other = rank ^ (1 << bit)
        yield Send(0, to=other), Reduce(0, source=other)


def _collect(rank: int, size: int) -> Iterator[Step]:
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
    yield from folded(_combine, rank, size, there=[0], back=[0])


@register("all_gather", name="recursive_doubling")
def all_gather(rank: int, size: int) -> Iterator[Step]:
    """The blocks that a rank knows are always neighbours, so that each exchange is one piece of memory.

    Cost: log2n*alpha + (n-1)/n*S*beta
    Exact for: n a power of two; others pay one message more, and the result twice
    """
    mine = partner(rank, size)
    yield from folded(_collect, rank, size, [mine], [b for b in range(size) if b != mine], get=Recv, blocks=True)
