"""{{stub.file}}"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from collectives import Buffer, Recv, Reduce, Send

Operation: TypeAlias = Send | Recv | Reduce
Step: TypeAlias = Operation | tuple[Operation, ...]  # {{stub.step}}


def others(rank: int, size: int) -> list[int]:
    """{{stub.others}}"""
    return [(rank + distance) % size for distance in range(1, size)]


def broadcast(rank: int, size: int) -> Iterator[Step]:
    """{{stub.broadcast}}"""
    if rank == 0:
        yield tuple(Send(chunk, to=peer) for peer in others(rank, size) for chunk in range(size))
    else:
        yield tuple(Recv(chunk, source=0) for chunk in range(size))


def scatter(rank: int, size: int) -> Iterator[Step]:
    """{{stub.scatter}}"""
    raise NotImplementedError  # TODO


def all_gather(rank: int, size: int) -> Iterator[Step]:
    """{{stub.all_gather}}"""
    raise NotImplementedError  # TODO


def reduce_scatter(rank: int, size: int) -> Iterator[Step]:
    """{{stub.reduce_scatter}}"""
    raise NotImplementedError  # TODO


# {{course.extra}}


def reduce(rank: int, size: int) -> Iterator[Step]:
    """{{stub.reduce}}"""
    raise NotImplementedError  # TODO


def gather(rank: int, size: int) -> Iterator[Step]:
    """{{stub.gather}}"""
    raise NotImplementedError  # TODO


def all_reduce(rank: int, size: int) -> Iterator[Step]:
    """{{stub.all_reduce}}"""
    raise NotImplementedError  # TODO


def all_to_all(rank: int, size: int) -> Iterator[Step]:
    """{{stub.all_to_all}}"""
    mine, arriving = Buffer("input"), Buffer("output")
    # TODO: {{stub.all_to_all_todo}}
    raise NotImplementedError
