"""{{broken.file}}"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import linear


class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


def column_linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """{{broken.column_linear}}"""
    # {{broken.same}}
    return linear(x, weight, bias)


def row_linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """{{broken.row_linear}}"""
    return Sum.apply(linear(x, weight, bias))
