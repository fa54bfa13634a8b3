# expects: all_gather: yields two lists
# finding: all_gather messages.nested
# says: rank 0 yields [Send(chunk=0, to=1), Send(chunk=0, to=2)] inside step 0: a step holds operations, no steps or lists; write yield from for the steps of another program, and yield (*sends, *receives) for lists
from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from collectives import Buffer, Recv, Reduce, Send

Operation: TypeAlias = Send | Recv | Reduce
Step: TypeAlias = Operation | tuple[Operation, ...]


def others(rank: int, size: int) -> list[int]:
    return [(rank + distance) % size for distance in range(1, size)]


def broadcast(rank: int, size: int) -> Iterator[Step]:
    if rank == 0:
        yield tuple(Send(chunk, to=peer) for peer in others(rank, size) for chunk in range(size))
    else:
        yield tuple(Recv(chunk, source=0) for chunk in range(size))


def reduce(rank: int, size: int) -> Iterator[Step]:
    if rank == 0:
        yield tuple(Reduce(chunk, source=peer) for peer in others(rank, size) for chunk in range(size))
    else:
        yield tuple(Send(chunk, to=0) for chunk in range(size))


def scatter(rank: int, size: int) -> Iterator[Step]:
    if rank == 0:
        yield tuple(Send(peer, to=peer) for peer in others(rank, size))
    else:
        yield Recv(rank, source=0)


def gather(rank: int, size: int) -> Iterator[Step]:
    if rank == 0:
        yield tuple(Recv(peer, source=peer) for peer in others(rank, size))
    else:
        yield Send(rank, to=0)


def all_gather(rank, size):
    sends = [Send(rank, to=p) for p in others(rank, size)]
    recvs = [Recv(p, source=p) for p in others(rank, size)]
    yield sends, recvs


def reduce_scatter(rank: int, size: int) -> Iterator[Step]:
    sends = [Send(peer, to=peer) for peer in others(rank, size)]
    arrivals = [Reduce(rank, source=peer) for peer in others(rank, size)]
    yield (*sends, *arrivals)


def all_reduce(rank: int, size: int) -> Iterator[Step]:
    sends = [Send(chunk, to=peer) for peer in others(rank, size) for chunk in range(size)]
    arrivals = [Reduce(chunk, source=peer) for peer in others(rank, size) for chunk in range(size)]
    yield (*sends, *arrivals)


def all_to_all(rank: int, size: int) -> Iterator[Step]:
    mine, arriving = Buffer("input"), Buffer("output")
    sends = [Send(mine[peer], to=peer) for peer in range(size)]
    arrivals = [Recv(arriving[peer], source=peer) for peer in range(size)]
    yield (*sends, *arrivals)
