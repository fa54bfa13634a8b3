"""Direct: everybody talks to everybody, all at once, without a go-between.

All-gather on 4 ranks is one step; peers are served in the order rank+1, rank+2, rank+3, so that at any moment every
port sends one message and receives one::

    rank 0  send 0 to     1    2    3        α is paid once, however many ranks there are: the shortest way for small
    rank 1  send 1 to     2    3    0        buffers. Each rank sends n−1 messages through one port, so nothing is saved
    rank 2  send 2 to     3    0    1        in bytes: all-gather, reduce-scatter and all-to-all send no more than a
    rank 3  send 3 to     0    1    2        ring does, all-reduce n/2 times as much.

One-shot all-reduce sends whole buffers and lets every rank add up all n of them. The sum is folded in rank order, not
in order of arrival, so that all ranks end with the same bits. Pairwise all-to-all serves one peer a step, not all.

Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", 2005
(pairwise exchange).
"""

from __future__ import annotations

from collections.abc import Iterator

from .registry import register
from .schedule import Buffer, Operation, Recv, Reduce, Send, Step


def _peers(rank: int, size: int) -> list[tuple[int, int]]:
    """Whom to send to and, at the same time, whom to hear from."""
    return [((rank + distance) % size, (rank - distance) % size) for distance in range(1, size)]


@register("all_reduce", name="direct", chunks=1, symmetric=True)
def all_reduce(rank: int, size: int) -> Iterator[Step]:
    """One-shot: everybody gets every buffer and adds them up.

    Cost: alpha + (n-1)*S*beta + (n-1)*S*gamma
    Exact for: n from 2 on
    """
    yield tuple(op for to, source in _peers(rank, size) for op in (Send(0, to), Reduce(0, source)))


@register("all_gather", name="direct", symmetric=True)
def all_gather(rank: int, size: int) -> Iterator[Step]:
    """Everybody sends its block to everybody.

    Cost: alpha + (n-1)/n*S*beta
    Exact for: n from 2 on
    """
    yield tuple(op for to, source in _peers(rank, size) for op in (Send(rank, to), Recv(source, source)))


@register("reduce_scatter", name="direct", symmetric=True)
def reduce_scatter(rank: int, size: int) -> Iterator[Step]:
    """Everybody sends chunk r to rank r, who adds them up.

    Cost: alpha + (n-1)/n*S*beta + (n-1)/n*S*gamma
    Exact for: n from 2 on
    """
    yield tuple(op for to, source in _peers(rank, size) for op in (Send(to, to), Reduce(rank, source)))


@register("all_to_all", name="pairwise", symmetric=True)
def pairwise(rank: int, size: int) -> Iterator[Step]:
    """One peer a step: never more than one message under way on a port.

    Cost: (n-1)*alpha + (n-1)/n*S*beta
    """
    for to, source in [(rank, rank), *_peers(rank, size)]:
        yield Send(Buffer("input")[to], to), Recv(Buffer("output")[source], source)


@register("all_to_all", name="direct", symmetric=True)
def all_to_all(rank: int, size: int) -> Iterator[Step]:
    """The steps of ``pairwise``, all at once.

    Cost: alpha + (n-1)/n*S*beta
    Exact for: n from 2 on
    """
    yield tuple(op for step in pairwise.steps(rank, size) for op in step)


@register("gather", name="direct")
def gather(rank: int, size: int) -> Iterator[Step | Operation]:
    """Everybody sends its block to rank 0 at the same time.

    Cost: alpha + (n-1)/n*S*beta
    Exact for: n from 2 on
    """
    yield Send(rank, to=0) if rank > 0 else tuple(Recv(peer, source=peer) for peer in range(1, size))


@register("scatter", name="direct")
def scatter(rank: int, size: int) -> Iterator[Step | Operation]:
    """Rank 0 sends everybody its block at the same time.

    Cost: alpha + (n-1)/n*S*beta
    Exact for: n from 2 on
    """
    yield Recv(rank, source=0) if rank > 0 else tuple(Send(peer, to=peer) for peer in range(1, size))
