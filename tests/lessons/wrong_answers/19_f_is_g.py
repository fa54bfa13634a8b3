# expects: f: sums in the forward
# finding: f tensor.f.exchanged
# says: f and g are exchanged: this is g, which sums in the forward. f hands x on as it is, and sums in the backward.
from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def summed(x: Tensor) -> Tensor:
    total = x.clone()
    dist.all_reduce(total)
    return total


class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return summed(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


def own_part(whole, dim):
    raise NotImplementedError


def f(x):
    return Sum.apply(x)


def g(x):
    raise NotImplementedError


def column_linear(x, weight, bias):
    raise NotImplementedError


def row_linear(x, weight, bias):
    raise NotImplementedError


def tensor_parallel_bytes(batch, sequence, hidden, ranks, itemsize):
    raise NotImplementedError
