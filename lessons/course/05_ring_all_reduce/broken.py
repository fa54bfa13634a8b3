"""{{broken.file}}"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


def all_reduce_bare(tensor: Tensor) -> None:
    """{{broken.all_reduce_bare}}"""
    rank, size = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % size, (rank - 1) % size
    total = tensor.clone()
    leaving, arriving = tensor.clone(), torch.empty_like(tensor)
    for _ in range(size - 1):
        sending = dist.isend(leaving, dst=right)
        dist.recv(arriving, src=left)
        total += tensor
        sending.wait()
        # {{broken.swap}}
        leaving, arriving = arriving, leaving
    tensor.copy_(total)
