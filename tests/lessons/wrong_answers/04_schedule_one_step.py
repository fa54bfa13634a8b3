# expects: reduce_scatter: everything in one step
# finding: reduce_scatter repair.one_by_one
# says: Everything stands in one step, but a step sends what was there before it: make a step of each send and its receive, with the yield inside the loop.
from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from collectives import Reduce, Send


def reduce_scatter_bare(chunks: list[Tensor]) -> Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % size, (rank - 1) % size
    for step in range(size - 1):
        leaving = chunks[(rank - step - 1) % size]
        growing = chunks[(rank - step - 2) % size]

        arrived = torch.empty_like(growing)
        sending = dist.isend(leaving, dst=right)
        dist.recv(arrived, src=left)
        sending.wait()
        growing += arrived
    return chunks[rank]


def reduce_scatter(rank, size):
    right, left = (rank + 1) % size, (rank - 1) % size
    yield tuple(
        op
        for s in range(size - 1)
        for op in (Send((rank - s - 1) % size, to=right), Reduce((rank - s - 2) % size, source=left))
    )
