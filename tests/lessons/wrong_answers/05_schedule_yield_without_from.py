# expects: all_reduce: yield in place of yield from
# finding: all_reduce messages.nested
# says: rank 0 yields (Send(chunk=2, to=1), Reduce(chunk=1, source=2)) inside step 0: a step holds operations, no steps or lists; write yield from for the steps of another program, and yield (*sends, *receives) for lists
from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor

from collectives import Recv, Send
from lessons.finished import finished

reduce_scatter = finished("reduce_scatter")


def all_reduce_bare(tensor: Tensor, op: str = "sum") -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    combine = {"sum": torch.add, "max": torch.maximum}[op]

    chunks = tensor.view(-1).tensor_split(size)

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


def all_reduce(rank, size):
    yield reduce_scatter(rank, size)
    yield all_gather(rank, size)
