# expects: f: averages the gradients
# finding: f tensor.f.mean
# says: f averages the gradients. Each rank has a part of x's gradient, from its own outputs: they are added up. A mean is for copies of the same model on different data.
from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def summed(x: Tensor) -> Tensor:
    total = x.clone()
    dist.all_reduce(total)
    return total


class Mean(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return summed(gradient) / dist.get_world_size()


def own_part(whole, dim):
    raise NotImplementedError


def f(x):
    return Mean.apply(x)


def g(x):
    raise NotImplementedError


def column_linear(x, weight, bias):
    raise NotImplementedError


def row_linear(x, weight, bias):
    raise NotImplementedError


def tensor_parallel_bytes(batch, sequence, hidden, ranks, itemsize):
    raise NotImplementedError
