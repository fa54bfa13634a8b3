"""{{broken.file}}"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor


def qkv_part(whole: Tensor) -> Tensor:
    """{{broken.qkv_part}}"""
    return whole.chunk(dist.get_world_size())[dist.get_rank()].clone()


Dropout = Callable[[Tensor, float], Tensor]


def dropouts(seed: int) -> tuple[Dropout, Dropout]:
    """{{broken.dropouts}}"""
    stream = torch.Generator().manual_seed(seed)

    def drop(x: Tensor, p: float) -> Tensor:
        keep = torch.rand(x.shape, generator=stream) >= p
        return x * keep / (1 - p)

    return drop, drop
