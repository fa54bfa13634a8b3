# expects: same_start: a buffer is not in the state dict
# finding: same_start data_parallel.same_start.persistent
# says: All of the state dict is alike, but one buffer is not in it: it was made with `persistent=False`. `model.buffers()` has all of them.
from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional


def rows_of(count: int, rank: int, size: int) -> list[int]:
    return list(range(rank, count, size))


def same_start(model: nn.Module) -> None:
    for tensor in model.state_dict().values():
        dist.broadcast(tensor.detach(), src=0)


def average_gradients(model: nn.Module, count: int) -> None:
    total = torch.tensor(count)
    dist.all_reduce(total)
    for parameter in model.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        parameter.grad *= count / total
        dist.all_reduce(parameter.grad)


def train_together(model: nn.Module, inputs: Tensor, targets: Tensor, steps: int, rate: float) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    same_start(model)
    mine = rows_of(len(inputs), dist.get_rank(), dist.get_world_size())
    for _ in range(steps):
        optimizer.zero_grad()
        functional.mse_loss(model(inputs[mine]), targets[mine]).backward()
        average_gradients(model, len(mine))
        optimizer.step()


def dp_bytes(size: int, model: float, inputs: float, outputs: float) -> float:
    others = size - 1
    scatter, replicate = inputs * others / size, model * others
    gather = loss = outputs * others / size
    gradients = model * others
    return scatter + replicate + gather + loss + gradients


def ddp_bytes(size: int, model: float) -> float:
    return 2 * 2 * (size - 1) / size * model
