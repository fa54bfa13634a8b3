# expects: f: gathers all gradients, and adds them up itself
# finding: f trial.dear.sent
# says: Right, but a rank sends 192 bytes on 3 ranks, where 128 are enough.
from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        every = [torch.empty_like(gradient) for _ in range(dist.get_world_size())]
        dist.all_gather(every, gradient)
        return torch.stack(every).sum(0)


def own_part(whole, dim):
    raise NotImplementedError


def f(x):
    return Gather.apply(x)


def g(x):
    raise NotImplementedError


def column_linear(x, weight, bias):
    raise NotImplementedError


def row_linear(x, weight, bias):
    raise NotImplementedError


def tensor_parallel_bytes(batch, sequence, hidden, ranks, itemsize):
    raise NotImplementedError
