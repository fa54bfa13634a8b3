"""{{broken.file}}"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import pad

import collectives


def reduce_mean(gradient: Tensor) -> Tensor:
    """{{broken.reduce_mean}}"""
    size = dist.get_world_size()
    flat = pad(gradient.flatten(), (0, -gradient.numel() % size))
    own = flat.new_empty(flat.numel() // size)
    collectives.reduce_scatter_tensor(own, flat)
    return own / size


def zero3_gradients(shards: Sequence[Tensor], inputs: Tensor, aims: Tensor) -> list[Tensor]:
    """{{broken.zero3_gradients}}"""
    size, width = dist.get_world_size(), inputs.shape[1]
    # {{broken.unit}}
    whole = [shard.new_empty(shard.numel() * size) for shard in shards]
    for flat, shard in zip(whole, shards, strict=True):
        collectives.all_gather_into_tensor(flat, shard)
    weights = [flat[: width * width].view(width, width) for flat in whole]
    kept = [inputs]
    for weight in weights:
        kept.append(torch.tanh(kept[-1] @ weight))
    gradient = 2 * (kept[-1] - aims) / aims.numel()
    found = []
    for weight in reversed(weights):
        inside = gradient * (1 - kept.pop() ** 2)
        found.append(reduce_mean(kept[-1].T @ inside))
        gradient = inside @ weight.T
    return found[::-1]


def cards_needed(capacity: float, parameters: int, largest: int, activations: float) -> int:
    """{{broken.cards_needed}}"""
    return math.ceil(16 * parameters / capacity)
