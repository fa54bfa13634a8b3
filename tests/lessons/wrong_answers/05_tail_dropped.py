# expects: all_reduce_bare: the tail is dropped: elements beyond numel // size * size are never summed
# finding: all_reduce_bare values.tail
# says: Only the end is wrong, 3 of 15 elements: the tail that is left when the length is divided by the ranks is forgotten.
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
    length = tensor.numel() // size
    chunks = [tensor.view(-1)[c * length : (c + 1) * length] for c in range(size)]

    def shift(leaving: Tensor, arriving: Tensor) -> None:
        sending = dist.isend(leaving, dst=(rank + 1) % size)
        dist.recv(arriving, src=(rank - 1) % size)
        sending.wait()

    for step in range(size - 1):
        growing = chunks[(rank - step - 2) % size]
        arrived = torch.empty_like(growing)
        shift(chunks[(rank - step - 1) % size], arrived)
        combine(growing, arrived, out=growing)
    for step in range(size - 1):
        shift(chunks[(rank - step) % size], chunks[(rank - step - 1) % size])


def all_gather(rank: int, size: int) -> Iterator[tuple[Send | Recv, ...]]:
    right, left = (rank + 1) % size, (rank - 1) % size
    for step in range(size - 1):
        yield Send((rank - step) % size, to=right), Recv((rank - step - 1) % size, source=left)


def all_reduce(rank: int, size: int) -> Iterator[tuple[Send | Recv | Reduce, ...]]:
    yield from reduce_scatter(rank, size)
    yield from all_gather(rank, size)
