"""{{broken.file}}"""

from __future__ import annotations

import torch.distributed as dist
from torch import nn


def same_start(model: nn.Module) -> None:
    """{{broken.same_start}}"""
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=0)


def average_gradients(model: nn.Module, count: int) -> None:
    """{{broken.average_gradients}}"""
    for parameter in model.parameters():
        if parameter.grad is None:
            continue  # {{broken.skip}}
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
