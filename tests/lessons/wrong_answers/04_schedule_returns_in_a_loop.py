# expects: reduce_scatter: returns the first step
# finding: reduce_scatter program.returned
# says: reduce_scatter returns its operations where it should yield them as one step: put yield in the place of return.
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
    for s in range(size - 1):
        return Send((rank - s - 1) % size, to=right), Reduce((rank - s - 2) % size, source=left)
    return None
