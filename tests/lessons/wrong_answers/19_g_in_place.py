# expects: g: all_reduce overwrites x
# finding: g tensor.g.in_place
# says: The sum is right, but g has overwritten x: dist.all_reduce works in place. Give it a clone of x.
from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


def own_part(whole, dim):
    raise NotImplementedError


def f(x):
    raise NotImplementedError


def g(x):
    return InPlace.apply(x)


def column_linear(x, weight, bias):
    raise NotImplementedError


def row_linear(x, weight, bias):
    raise NotImplementedError


def tensor_parallel_bytes(batch, sequence, hidden, ranks, itemsize):
    raise NotImplementedError
