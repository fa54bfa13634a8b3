"""{{solution.file}}"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import pad

import collectives


def zero_bytes(parameters: int, ranks: int, stage: int, optimizer: float = 12) -> float:
    """{{solution.zero_bytes}}"""
    share = parameters / ranks
    return (
        2 * (share if stage >= 3 else parameters)
        + 2 * (share if stage >= 2 else parameters)
        + optimizer * (share if stage >= 1 else parameters)
    )


def flatten_padded(tensors: Sequence[Tensor], size: int) -> Tensor:
    """{{solution.flatten_padded}}"""
    flat = torch.cat([tensor.flatten() for tensor in tensors])
    return pad(flat, (0, -flat.numel() % size))


def put_back(flat: Tensor, tensors: Sequence[Tensor]) -> None:
    """{{solution.put_back}}"""
    start = 0
    for tensor in tensors:
        tensor.copy_(flat[start : start + tensor.numel()].view_as(tensor))
        start += tensor.numel()


def reduce_mean(whole: Tensor) -> Tensor:
    """{{solution.reduce_mean}}"""
    size = dist.get_world_size()
    own = whole.new_empty(whole.numel() // size)
    collectives.reduce_scatter_tensor(own, whole)
    return own / size


def zero1_train(
    parameters: Sequence[Tensor], backward: Callable[[], Sequence[Tensor]], steps: int, rate: float
) -> torch.optim.Adam:
    """{{solution.zero1_train}}"""
    rank, size = dist.get_rank(), dist.get_world_size()
    flat = flatten_padded(parameters, size)
    own = flat.chunk(size)[rank].clone()
    # {{solution.states}}
    optimizer = torch.optim.Adam([own], rate)
    for _ in range(steps):
        own.grad = reduce_mean(flatten_padded(backward(), size))
        optimizer.step()
        collectives.all_gather_into_tensor(flat, own)
        put_back(flat, parameters)
    return optimizer


# {{course.extra}}


def zero2_reduce(gradients: Iterator[Tensor]) -> list[Tensor]:
    """{{solution.zero2_reduce}}"""
    size = dist.get_world_size()
    return [reduce_mean(flatten_padded([gradient], size)) for gradient in gradients]


def shards_norm(shards: Sequence[Tensor], replicated: Sequence[Tensor]) -> Tensor:
    """{{solution.shards_norm}}"""
    total = torch.stack([shard.square().sum() for shard in shards]).sum()
    dist.all_reduce(total)
    # {{solution.once}}
    for tensor in replicated:
        total += tensor.square().sum()
    return total.sqrt()
