# expects: tree_broadcast: a rank is 1.5
# finding: tree_broadcast messages.no_whole_rank
# says: Send(chunk=0, to=1.5) of rank 0 at step 0: a rank is a whole number; if it comes from a division, use //
from __future__ import annotations

from collections.abc import Iterator

from collectives import Recv, Reduce, Send, place
from lessons.finished import finished

reduce_scatter = finished("reduce_scatter")
all_reduce = finished("all_reduce")
all_gather = finished("all_gather")


def tree_broadcast(rank, size):
    d = size / 2
    while d >= 1:
        if rank % (2 * d) == 0:
            yield Send(0, to=rank + d)
        elif rank % (2 * d) == d:
            yield Recv(0, source=rank - d)
        d = d / 2


def doubling(rank: int, size: int) -> Iterator[Send | Recv | Reduce | tuple[Send, Reduce]]:
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
