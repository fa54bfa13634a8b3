# expects: all_reduce_bare: right, but every message is the whole buffer
# finding: all_reduce_bare costs.whole
# says: Each message is the whole buffer: a rank sends 3× the buffer on 4 ranks, where 3/2× is enough. Cut it into chunks, and send one at a time.
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
    leaving = tensor.clone()

    def shift(leaving: Tensor, arriving: Tensor) -> None:
        sending = dist.isend(leaving, dst=(rank + 1) % size)
        dist.recv(arriving, src=(rank - 1) % size)
        sending.wait()

    for _ in range(size - 1):
        arrived = torch.empty_like(leaving)
        shift(leaving, arrived)
        combine(tensor, arrived, out=tensor)
        leaving = arrived


def all_gather(rank: int, size: int) -> Iterator[tuple[Send | Recv, ...]]:
    right, left = (rank + 1) % size, (rank - 1) % size
    for step in range(size - 1):
        yield Send((rank - step) % size, to=right), Recv((rank - step - 1) % size, source=left)


def all_reduce(rank: int, size: int) -> Iterator[tuple[Send | Recv | Reduce, ...]]:
    yield from reduce_scatter(rank, size)
    yield from all_gather(rank, size)
