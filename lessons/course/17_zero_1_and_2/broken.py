"""{{broken.file}}"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

import collectives


def zero1_train(
    parameters: Sequence[Tensor], backward: Callable[[], Sequence[Tensor]], steps: int, rate: float
) -> torch.optim.Adam:
    """{{broken.zero1_train}}"""
    rank, size = dist.get_rank(), dist.get_world_size()
    flat = torch.cat([parameter.flatten() for parameter in parameters])
    length = flat.numel() // size
    own = flat[rank * length : (rank + 1) * length].clone()
    optimizer = torch.optim.Adam([own], rate)
    for _ in range(steps):
        gradient = torch.cat([one.flatten() for one in backward()])
        own.grad = torch.empty_like(own)
        collectives.reduce_scatter_tensor(own.grad, gradient[: length * size])
        own.grad /= size
        optimizer.step()
        collectives.all_gather_into_tensor(flat[: length * size], own)
        start = 0
        for parameter in parameters:
            parameter.copy_(flat[start : start + parameter.numel()].view_as(parameter))
            start += parameter.numel()
    return optimizer


def shards_norm(shards: Sequence[Tensor], replicated: Sequence[Tensor]) -> Tensor:
    """{{broken.shards_norm}}"""
    total = torch.zeros((), dtype=torch.float64)
    for tensor in [*shards, *replicated]:
        total += tensor.square().sum()
    dist.all_reduce(total)
    return total.sqrt()
