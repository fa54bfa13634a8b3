# expects: train_on_ring: a name that torch does not read
# finding: train_on_ring process.all_raised
# says: Every rank raised the same: ValueError: name='ring:Mine': torch reads backend names in lower case; give one like 'ring:mine'
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
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    register("ring:Mine", Schedule("all_reduce", ring))
    dist.init_process_group("ring:mine")
    rank, size = dist.get_rank(), dist.get_world_size()
    replica = DistributedDataParallel(model)
    mine = list(range(rank, len(inputs), size))
    for _ in range(steps):
        optimizer.zero_grad()
        loss = functional.mse_loss(replica(inputs[mine]), targets[mine])
        (loss * len(mine) * size / len(inputs)).backward()
        optimizer.step()


def messages(buckets: int, size: int) -> int:
    return buckets * 2 * (size - 1)
