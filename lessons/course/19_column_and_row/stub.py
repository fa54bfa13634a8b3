"""{{stub.file}}"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import linear


def own_part(whole: Tensor, dim: int) -> Tensor:
    """{{stub.own_part}}"""
    rank, size = dist.get_rank(), dist.get_world_size()
    # TODO: {{stub.own_part_todo}}
    raise NotImplementedError


def summed(x: Tensor) -> Tensor:
    """{{stub.summed}}"""
    total = x.clone()
    dist.all_reduce(total)
    return total


def f(x: Tensor) -> Tensor:
    """{{stub.f}}"""
    # TODO: {{stub.f_todo}}
    raise NotImplementedError


def g(x: Tensor) -> Tensor:
    """{{stub.g}}"""
    # TODO: {{stub.g_todo}}
    raise NotImplementedError


def column_linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """{{stub.column_linear}}"""
    # TODO: {{stub.column_linear_todo}}
    raise NotImplementedError


def row_linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """{{stub.row_linear}}"""
    # TODO: {{stub.row_linear_todo}}
    raise NotImplementedError


# {{course.extra}}


def tensor_parallel_bytes(batch: int, sequence: int, hidden: int, ranks: int, itemsize: int) -> float:
    """{{stub.tensor_parallel_bytes}}"""
    # TODO: {{stub.tensor_parallel_bytes_todo}}
    raise NotImplementedError
