"""{{stub.file}}"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional


def rows_of(count: int, rank: int, size: int) -> list[int]:
    """{{stub.rows_of}}"""
    # TODO: {{stub.rows_of_todo}}
    raise NotImplementedError


def same_start(model: nn.Module) -> None:
    """{{stub.same_start}}"""
    # TODO: {{stub.same_start_todo}}
    raise NotImplementedError


def average_gradients(model: nn.Module, count: int) -> None:
    """{{stub.average_gradients}}"""
    # TODO: {{stub.average_gradients_todo}}
    raise NotImplementedError


def train_together(model: nn.Module, inputs: Tensor, targets: Tensor, steps: int, rate: float) -> None:
    """{{stub.train_together}}"""
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    same_start(model)
    mine = rows_of(len(inputs), dist.get_rank(), dist.get_world_size())
    for _ in range(steps):
        optimizer.zero_grad()
        functional.mse_loss(model(inputs[mine]), targets[mine]).backward()
        average_gradients(model, len(mine))
        optimizer.step()


# {{course.extra}}


def dp_bytes(size: int, model: float, inputs: float, outputs: float) -> float:
    """{{stub.dp_bytes}}"""
    # TODO: {{stub.dp_bytes_todo}}
    raise NotImplementedError


def ddp_bytes(size: int, model: float) -> float:
    """{{stub.ddp_bytes}}"""
    # TODO: {{stub.ddp_bytes_todo}}
    raise NotImplementedError
