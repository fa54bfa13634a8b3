# expects: train_on_ring: backend ring, but not the registered name
# finding: train_on_ring data_parallel.launched.chosen
# says: The result is right, and on backend ring; but with a schedule that the cost model has chosen. Make the group with the name that you have registered.
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
    register("ring:mine", Schedule("all_reduce", ring))
    dist.init_process_group("ring")
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
