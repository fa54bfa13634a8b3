"""{{broken.file}}"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


def rotate(mine: Tensor) -> Tensor:
    """{{broken.rotate}}"""
    rank, size = dist.get_rank(), dist.get_world_size()
    theirs = torch.empty_like(mine)
    dist.recv(theirs, src=(rank - 1) % size)
    dist.send(mine, dst=(rank + 1) % size)
    return theirs
