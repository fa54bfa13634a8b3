"""{{solution.file}}"""

from __future__ import annotations

from collections.abc import Iterator

from collectives import Recv, Reduce, Send, place
from lessons.finished import finished

reduce_scatter = finished("reduce_scatter")
all_reduce = finished("all_reduce")
all_gather = finished("all_gather")


def tree_broadcast(rank: int, size: int) -> Iterator[Send | Recv]:
    """{{solution.tree_broadcast}}"""
    distance = 1 << (size - 1).bit_length()
    while distance > 1:
        reach, distance = distance, distance // 2
        if rank % reach == 0 and rank + distance < size:
            yield Send(0, to=rank + distance)
        elif rank % reach == distance:
            yield Recv(0, source=rank - distance)


def hierarchical(rank: int, size: int, local: int) -> Iterator[tuple[Send | Recv | Reduce, ...]]:
    """{{solution.hierarchical}}"""
    nodes, (node, me) = size // local, divmod(rank, local)
    mates = range(node * local, (node + 1) * local)
    rail = range(me, size, local)
    # {{solution.blocks}}
    blocks = [range(block * nodes, (block + 1) * nodes) for block in range(local)]
    yield from place(reduce_scatter(me, local), mates, blocks)
    yield from place(all_reduce(node, nodes), rail, blocks[me])
    yield from place(all_gather(me, local), mates, blocks)


def ring_order(hosts: list[int]) -> list[int]:
    """{{solution.ring_order}}"""
    return sorted(range(len(hosts)), key=hosts.__getitem__)


# {{course.extra}}


def doubling(rank: int, size: int) -> Iterator[Send | Recv | Reduce | tuple[Send, Reduce]]:
    """{{solution.doubling}}"""
    inner = 1 << size.bit_length() - 1
    if rank >= inner:
        yield Send(0, to=rank - inner)
        yield Recv(0, source=rank - inner)
        return
    folds = rank + inner < size
    if folds:
        yield Reduce(0, source=rank + inner)
    distance = 1
    while distance < inner:
        yield Send(0, to=rank ^ distance), Reduce(0, source=rank ^ distance)
        distance *= 2
    if folds:
        yield Send(0, to=rank + inner)
