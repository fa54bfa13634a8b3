"""Naive: rank 0 is the server, and serves one rank after the other. What everybody writes first.

All-reduce on 4 ranks; `+r` adds the buffer of rank r, `▶r` sends it the result::

    step       0     1     2  |  3     4     5
    rank 0    +1    +2    +3  | ▶1    ▶2    ▶3        2(n−1) whole buffers pass through one port, while all the other
    rank 1    ▶0              | get                   ports wait: twice the ranks, twice the time. The other modules
    rank 2          ▶0        |       get             are ways out: share the chunks (ring), share the sending
    rank 3                ▶0  |             get       (binomial, chain), or both (double_tree).

Source: the parameter server with one server; Li et al., "Scaling distributed machine learning with the parameter
server", 2014.
"""

from __future__ import annotations

from collections.abc import Iterator

from .combinators import place
from .registry import register
from .schedule import Operation, Recv, Reduce, Send, Step


@register("reduce", name="naive", chunks=1)
def reduce(rank: int, size: int) -> Iterator[Operation]:
    """Rank 0 adds one buffer after the other.

    Cost: (n-1)*(alpha + S*beta + S*gamma)
    """
    if rank > 0:
        yield Send(0, to=0)
    else:
        for peer in range(1, size):
            yield Reduce(0, source=peer)


@register("broadcast", name="naive", chunks=1)
def broadcast(rank: int, size: int) -> Iterator[Operation]:
    """Rank 0 sends the buffer to one rank after the other.

    Cost: (n-1)*(alpha + S*beta)
    """
    if rank > 0:
        yield Recv(0, source=0)
    else:
        for peer in range(1, size):
            yield Send(0, to=peer)


@register("all_reduce", name="naive", chunks=1)
def all_reduce(rank: int, size: int) -> Iterator[Step | Operation]:
    """Everybody sends to rank 0, who adds up and sends the result to everybody.

    Cost: (n-1)*(2*alpha + 2*S*beta + S*gamma)
    """
    yield from reduce(rank, size)
    yield from broadcast(rank, size)


@register("gather", name="naive")
def gather(rank: int, size: int) -> Iterator[Operation]:
    """Rank 0 receives one block after the other.

    Cost: (n-1)*(alpha + S/n*beta)
    """
    if rank > 0:
        yield Send(rank, to=0)
    else:
        for peer in range(1, size):
            yield Recv(peer, source=peer)


@register("scatter", name="naive")
def scatter(rank: int, size: int) -> Iterator[Operation]:
    """Rank 0 sends one block after the other.

    Cost: (n-1)*(alpha + S/n*beta)
    """
    if rank > 0:
        yield Recv(rank, source=0)
    else:
        for peer in range(1, size):
            yield Send(peer, to=peer)


@register("all_gather", name="naive")
def all_gather(rank: int, size: int) -> Iterator[Step | Operation]:
    """Rank 0 gathers all blocks, then sends all of them to everybody.

    Cost: (n-1)*(2*alpha + (n+1)/n*S*beta)
    """
    yield from gather(rank, size)
    yield from place(broadcast(rank, size), range(size), [range(size)])


@register("reduce_scatter", name="naive")
def reduce_scatter(rank: int, size: int) -> Iterator[Step | Operation]:
    """Rank 0 adds up whole buffers, then sends everybody its block.

    Cost: (n-1)*(2*alpha + (n+1)/n*S*beta + S*gamma)
    """
    yield from place(reduce(rank, size), range(size), [range(size)])
    yield from scatter(rank, size)


@register("barrier", name="naive", chunks=1)
def barrier(rank: int, size: int) -> Iterator[Step | Operation]:
    """Everybody tells rank 0 that it is there, and waits to be told to go on.

    Cost: 2*(n-1)*alpha
    """
    yield from all_reduce(rank, size)
