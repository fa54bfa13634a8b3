"""{{solution.file}}"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import linear


def own_part(whole: Tensor, dim: int) -> Tensor:
    """{{solution.own_part}}"""
    return whole.chunk(dist.get_world_size(), dim)[dist.get_rank()].clone()


def summed(x: Tensor) -> Tensor:
    """{{solution.summed}}"""
    total = x.clone()
    dist.all_reduce(total)
    return total


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return summed(gradient)


class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return summed(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


def f(x: Tensor) -> Tensor:
    """{{solution.f}}"""
    return Copy.apply(x)


def g(x: Tensor) -> Tensor:
    """{{solution.g}}"""
    return Sum.apply(x)


def column_linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """{{solution.column_linear}}"""
    return linear(f(x), weight, bias)


def row_linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """{{solution.row_linear}}"""
    return g(linear(x, weight)) + bias


# {{course.extra}}


def tensor_parallel_bytes(batch: int, sequence: int, hidden: int, ranks: int, itemsize: int) -> float:
    """{{solution.tensor_parallel_bytes}}"""
    all_reduce = 2 * (ranks - 1) / ranks * batch * sequence * hidden * itemsize
    return 4 * all_reduce
