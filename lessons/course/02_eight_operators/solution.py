"""{{solution.file}}"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from collectives import Buffer, Recv, Reduce, Send

Operation: TypeAlias = Send | Recv | Reduce
Step: TypeAlias = Operation | tuple[Operation, ...]


def others(rank: int, size: int) -> list[int]:
    """{{solution.others}}"""
    return [(rank + distance) % size for distance in range(1, size)]


def broadcast(rank: int, size: int) -> Iterator[Step]:
    """{{solution.broadcast}}"""
    if rank == 0:
        yield tuple(Send(chunk, to=peer) for peer in others(rank, size) for chunk in range(size))
    else:
        yield tuple(Recv(chunk, source=0) for chunk in range(size))


def scatter(rank: int, size: int) -> Iterator[Step]:
    """{{solution.scatter}}"""
    if rank == 0:
        yield tuple(Send(peer, to=peer) for peer in others(rank, size))
    else:
        yield Recv(rank, source=0)


def all_gather(rank: int, size: int) -> Iterator[Step]:
    """{{solution.all_gather}}"""
    sends = [Send(rank, to=peer) for peer in others(rank, size)]
    arrivals = [Recv(peer, source=peer) for peer in others(rank, size)]
    yield (*sends, *arrivals)


def reduce_scatter(rank: int, size: int) -> Iterator[Step]:
    """{{solution.reduce_scatter}}"""
    sends = [Send(peer, to=peer) for peer in others(rank, size)]
    arrivals = [Reduce(rank, source=peer) for peer in others(rank, size)]
    yield (*sends, *arrivals)


# {{course.extra}}


def reduce(rank: int, size: int) -> Iterator[Step]:
    """{{solution.reduce}}"""
    if rank == 0:
        yield tuple(Reduce(chunk, source=peer) for peer in others(rank, size) for chunk in range(size))
    else:
        yield tuple(Send(chunk, to=0) for chunk in range(size))


def gather(rank: int, size: int) -> Iterator[Step]:
    """{{solution.gather}}"""
    if rank == 0:
        yield tuple(Recv(peer, source=peer) for peer in others(rank, size))
    else:
        yield Send(rank, to=0)


def all_reduce(rank: int, size: int) -> Iterator[Step]:
    """{{solution.all_reduce}}"""
    sends = [Send(chunk, to=peer) for peer in others(rank, size) for chunk in range(size)]
    arrivals = [Reduce(chunk, source=peer) for peer in others(rank, size) for chunk in range(size)]
    yield (*sends, *arrivals)


def all_to_all(rank: int, size: int) -> Iterator[Step]:
    """{{solution.all_to_all}}"""
    mine, arriving = Buffer("input"), Buffer("output")
    sends = [Send(mine[peer], to=peer) for peer in range(size)]
    arrivals = [Recv(arriving[peer], source=peer) for peer in range(size)]
    yield (*sends, *arrivals)
