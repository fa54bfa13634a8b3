# expects: doubling: replaces in the exchange
# finding: doubling repair.reduce
# says: What is received in a step that sends too replaces the chunk, and its contributions are lost: it should be added (Reduce in place of Recv).
from __future__ import annotations

from collections.abc import Iterator

from collectives import Recv, Reduce, Send, place
from lessons.finished import finished

reduce_scatter = finished("reduce_scatter")
all_reduce = finished("all_reduce")
all_gather = finished("all_gather")


def tree_broadcast(rank: int, size: int) -> Iterator[Send | Recv]:
    distance = 1 << (size - 1).bit_length()
    while distance > 1:
        reach, distance = distance, distance // 2
        if rank % reach == 0 and rank + distance < size:
            yield Send(0, to=rank + distance)
        elif rank % reach == distance:
            yield Recv(0, source=rank - distance)


def doubling(rank, size):
    inner = 1 << size.bit_length() - 1
    if rank >= inner:
        yield Send(0, to=rank - inner)
        yield Recv(0, source=rank - inner)
        return
    if rank + inner < size:
        yield Reduce(0, source=rank + inner)
    k = 1
    while k < inner:
        yield Send(0, to=rank ^ k), Recv(0, source=rank ^ k)
        k *= 2
    if rank + inner < size:
        yield Send(0, to=rank + inner)


def hierarchical(rank: int, size: int, local: int) -> Iterator[tuple[Send | Recv | Reduce, ...]]:
    nodes, (node, me) = size // local, divmod(rank, local)
    mates = range(node * local, (node + 1) * local)
    rail = range(me, size, local)

    blocks = [range(block * nodes, (block + 1) * nodes) for block in range(local)]
    yield from place(reduce_scatter(me, local), mates, blocks)
    yield from place(all_reduce(node, nodes), rail, blocks[me])
    yield from place(all_gather(me, local), mates, blocks)


def ring_order(hosts: list[int]) -> list[int]:
    return sorted(range(len(hosts)), key=hosts.__getitem__)
