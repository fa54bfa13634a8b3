"""Binomial tree: whoever has the data passes it on, so their number doubles every step.

Scatter of 8 blocks on 8 ranks; `4–7▶4` sends blocks 4 to 7 to rank 4::

    step       0        1        2
    rank 0   4–7▶4    2–3▶2     1▶1            0           Largest subtree first: half of the blocks leave at once,
    rank 2                      3▶3          ╱ │ ╲         and all subtrees end at the same time, after log2(8) = 3
    rank 4            6–7▶6     5▶5         4  2  1        messages and 7 blocks. Smallest first would keep rank 4
    rank 6                      7▶7        ╱│  │           waiting until last: 6 messages one after the other.
                                          6 5  3
                                          7

A rank's subtree is the block range that it is sent. Broadcast sends the whole buffer along the same arrows; gather and
reduce are scatter and broadcast backwards in time, with every arrow turned round.

Source: Johnsson and Ho, "Optimum broadcasting and personalized communication in hypercubes", 1989.
"""

from __future__ import annotations

from collections.abc import Iterator

from .registry import register
from .schedule import Operation, Recv, Reduce, Send, Step


def _edges(rank: int, size: int) -> list[tuple[int, int, range]]:
    """The rank's edges, largest subtree first: (parent, child, ranks in the child's subtree)."""
    edges = []
    for bit in reversed(range((size - 1).bit_length())):
        half = 1 << bit
        parent = rank - rank % (2 * half)
        child = parent + half
        if rank in (parent, child) and child < size:
            edges.append((parent, child, range(child, min(child + half, size))))
    return edges


@register("broadcast", name="binomial", chunks=1)
def broadcast(rank: int, size: int) -> Iterator[Operation]:
    """Every step, all who have the buffer send it to one more.

    Cost: log2n*(alpha + S*beta)
    """
    for parent, child, _ in _edges(rank, size):
        yield Send(0, to=child) if rank == parent else Recv(0, source=parent)


@register("reduce", name="binomial", chunks=1)
def reduce(rank: int, size: int) -> Iterator[Operation]:
    """Every step, half of those who are left give their sum to the other half.

    Cost: log2n*(alpha + S*beta + S*gamma)
    """
    for parent, child, _ in reversed(_edges(rank, size)):
        yield Reduce(0, source=child) if rank == parent else Send(0, to=parent)


@register("scatter", name="binomial")
def scatter(rank: int, size: int) -> Iterator[Step]:
    """Every step, a rank hands the upper half of its blocks to the first rank among their owners.

    Cost: log2n*alpha + (n-1)/n*S*beta
    """
    for parent, child, blocks in _edges(rank, size):
        yield tuple(Send(b, to=child) if rank == parent else Recv(b, source=parent) for b in blocks)


@register("gather", name="binomial")
def gather(rank: int, size: int) -> Iterator[Step]:
    """Every step, half of those who are left give all their blocks to the other half.

    Cost: log2n*alpha + (n-1)/n*S*beta
    """
    for parent, child, blocks in reversed(_edges(rank, size)):
        yield tuple(Recv(b, source=child) if rank == parent else Send(b, to=parent) for b in blocks)
