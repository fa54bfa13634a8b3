"""{{broken.file}}"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


def all_reduce_bare(tensor: Tensor) -> None:
    """{{broken.all_reduce_bare}}"""
    rank, size = dist.get_rank(), dist.get_world_size()
    if rank > 0:
        dist.send(tensor, dst=0)
        dist.recv(tensor, src=0)
        return
    theirs = torch.empty_like(tensor)
    for peer in range(1, size):
        dist.recv(theirs, src=peer)
        tensor += theirs
        dist.send(tensor, dst=peer)  # {{broken.answer}}
