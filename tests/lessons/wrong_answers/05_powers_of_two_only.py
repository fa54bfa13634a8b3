# expects: all_reduce_bare: exchanges with rank XOR distance: right on 2 and 4 ranks, wrong on 3 and 5
# finding: all_reduce_bare values.powers
# says: Right on 2, 4 ranks, wrong on 3, 5: it counts on a power of two. With other numbers of ranks somebody has no partner.
from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor

from collectives import Recv, Reduce, Send
from lessons.finished import finished

reduce_scatter = finished("reduce_scatter")


def all_reduce_bare(tensor: Tensor, op: str = "sum") -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    combine = {"sum": torch.add, "max": torch.maximum}[op]

    distance = 1
    while distance < size:
        partner = rank ^ distance
        if partner < size:
            arrived = torch.empty_like(tensor)
            sending = dist.isend(tensor, dst=partner)
            dist.recv(arrived, src=partner)
            sending.wait()
            combine(tensor, arrived, out=tensor)
        distance *= 2


def all_gather(rank: int, size: int) -> Iterator[tuple[Send | Recv, ...]]:
    right, left = (rank + 1) % size, (rank - 1) % size
    for step in range(size - 1):
        yield Send((rank - step) % size, to=right), Recv((rank - step - 1) % size, source=left)


def all_reduce(rank: int, size: int) -> Iterator[tuple[Send | Recv | Reduce, ...]]:
    yield from reduce_scatter(rank, size)
    yield from all_gather(rank, size)
