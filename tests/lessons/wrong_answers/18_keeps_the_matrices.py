# expects: zero3_gradients: gathered once, and kept until the backward
# finding: zero3_gradients trial.dear.memory
# says: Right, but a rank holds up to 354048 bytes beside its arguments on 2 ranks, where 292880 are enough.
from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import pad

import collectives


def forward(weight: Tensor, inputs: Tensor) -> Tensor:
    return torch.tanh(inputs @ weight)


def backward(weight: Tensor, inputs: Tensor, outputs: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    inside = gradient * (1 - outputs**2)
    return inputs.T @ inside, inside @ weight.T


def slope(outputs: Tensor, aims: Tensor) -> Tensor:
    return 2 * (outputs - aims) / aims.numel()


def reduce_mean(gradient: Tensor) -> Tensor:
    size = dist.get_world_size()
    flat = pad(gradient.flatten(), (0, -gradient.numel() % size))
    own = flat.new_empty(flat.numel() // size)
    collectives.reduce_scatter_tensor(own, flat)
    return own / size


def gather_layer(shard: Tensor, shape: Sequence[int]) -> Tensor:
    whole = shard.new_empty(shard.numel() * dist.get_world_size())
    collectives.all_gather_into_tensor(whole, shard)
    return whole[: math.prod(shape)].view(*shape)


def zero3_gradients(shards: Sequence[Tensor], inputs: Tensor, aims: Tensor) -> list[Tensor]:
    shape = inputs.shape[1], inputs.shape[1]
    kept, weights = [inputs], []
    for shard in shards:
        weights.append(gather_layer(shard, shape))
        kept.append(forward(weights[-1], kept[-1]))
    gradient, found = slope(kept[-1], aims), []
    for _ in shards:
        outputs = kept.pop()
        of_weight, gradient = backward(weights.pop(), kept[-1], outputs, gradient)
        found.append(reduce_mean(of_weight))
    return found[::-1]


def least_bytes(parameters: int, ranks: int, largest: int, activations: float) -> float:
    return 16 * parameters / ranks + 4 * largest + activations


def cards_needed(capacity: float, parameters: int, largest: int, activations: float) -> int:
    left = capacity - 4 * largest - activations
    return math.ceil(16 * parameters / left) if left > 0 else 0


def offload_bytes(parameters: int, ranks: int, microbatches: int) -> float:
    return 2 * microbatches * parameters / ranks + 2 * parameters / ranks
