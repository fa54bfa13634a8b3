# expects: reduce_scatter: the chunk indices are exchanged
# finding: reduce_scatter repair.exchanged
# says: The two chunk indices are exchanged: send the chunk that you receive into now, and receive into the one that you send now.
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
        yield Send((rank - s - 2) % size, to=right), Reduce((rank - s - 1) % size, source=left)
