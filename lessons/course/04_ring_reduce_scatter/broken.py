"""{{broken.file}}"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


def reduce_scatter_bare(chunks: list[Tensor]) -> Tensor:
    """{{broken.reduce_scatter_bare}}"""
    rank, size = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % size, (rank - 1) % size
    for step in range(size - 1):
        leaving = chunks[(rank + step - 1) % size]
        growing = chunks[(rank + step - 2) % size]
        arrived = torch.empty_like(growing)
        sending = dist.isend(leaving, dst=right)
        dist.recv(arrived, src=left)
        sending.wait()
        growing += arrived
    return chunks[rank]
