# expects: train_on_ring: uneven shares without a factor
# finding: train_on_ring data_parallel.train_on_ring.means
# says: This is DDP's mean of the ranks' losses. With uneven shares multiply the loss by n · rows / all rows before `backward()`: DDP divides by n.
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
    dist.init_process_group("ring:mine")
    rank, size = dist.get_rank(), dist.get_world_size()
    replica = DistributedDataParallel(model)
    mine = list(range(rank, len(inputs), size))
    for _ in range(steps):
        optimizer.zero_grad()
        loss = functional.mse_loss(replica(inputs[mine]), targets[mine])
        loss.backward()
        optimizer.step()


def messages(buckets: int, size: int) -> int:
    return buckets * 2 * (size - 1)
