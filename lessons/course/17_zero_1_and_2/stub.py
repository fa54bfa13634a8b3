"""{{stub.file}}"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

import collectives


def zero_bytes(parameters: int, ranks: int, stage: int, optimizer: float = 12) -> float:
    """{{stub.zero_bytes}}"""
    # TODO: {{stub.zero_bytes_todo}}
    raise NotImplementedError


def flatten_padded(tensors: Sequence[Tensor], size: int) -> Tensor:
    """{{stub.flatten_padded}}"""
    # TODO: {{stub.flatten_padded_todo}}
    raise NotImplementedError


def put_back(flat: Tensor, tensors: Sequence[Tensor]) -> None:
    """{{stub.put_back}}"""
    start = 0
    for tensor in tensors:
        tensor.copy_(flat[start : start + tensor.numel()].view_as(tensor))
        start += tensor.numel()


def reduce_mean(whole: Tensor) -> Tensor:
    """{{stub.reduce_mean}}"""
    size = dist.get_world_size()
    own = whole.new_empty(whole.numel() // size)
    collectives.reduce_scatter_tensor(own, whole)
    return own / size


def zero1_train(
    parameters: Sequence[Tensor], backward: Callable[[], Sequence[Tensor]], steps: int, rate: float
) -> torch.optim.Adam:
    """{{stub.zero1_train}}"""
    rank, size = dist.get_rank(), dist.get_world_size()
    # TODO: {{stub.zero1_train_todo}}
    raise NotImplementedError


# {{course.extra}}


def zero2_reduce(gradients: Iterator[Tensor]) -> list[Tensor]:
    """{{stub.zero2_reduce}}"""
    size = dist.get_world_size()
    # TODO: {{stub.zero2_reduce_todo}}
    raise NotImplementedError


def shards_norm(shards: Sequence[Tensor], replicated: Sequence[Tensor]) -> Tensor:
    """{{stub.shards_norm}}"""
    # TODO: {{stub.shards_norm_todo}}
    raise NotImplementedError
