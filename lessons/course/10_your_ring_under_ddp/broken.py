"""{{broken.file}}"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from collectives import Schedule
from collectives.torch_backend import register
from lessons.finished import finished

ring = finished("all_reduce")


def train_on_ring(model: nn.Module, inputs: Tensor, targets: Tensor, steps: int, rate: float) -> None:
    """{{broken.train_on_ring}}"""
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    register("ring:mine", Schedule("all_reduce", ring))
    dist.init_process_group("ring:mine")
    rank, size = dist.get_rank(), dist.get_world_size()
    replica = DistributedDataParallel(model)
    mine = list(range(rank, len(inputs), size))
    for _ in range(steps):
        optimizer.zero_grad()
        outputs = replica.module(inputs[mine])  # {{broken.module}}
        loss = functional.mse_loss(outputs, targets[mine])
        (loss * len(mine) * size / len(inputs)).backward()
        optimizer.step()
