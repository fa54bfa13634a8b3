# expects: gather_places: the own slice of the own gradient
# finding: gather_places tensor.gather_places.own_slice
# says: The output is right, but in the backward each rank keeps its own slice of its own gradient. Every rank has used all places: the gradients are added up, and each rank gets its places of the sum. That is a reduce-scatter.
from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from lessons.finished import finished

g = finished("g")


def gathered(x: Tensor) -> Tensor:
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x.contiguous())
    return torch.cat(parts, dim=-2)


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return gathered(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient.chunk(dist.get_world_size(), -2)[dist.get_rank()]


def gather_places(x):
    return Gather.apply(x)


def scatter_sum(x):
    raise NotImplementedError


def embed(tokens, weight):
    raise NotImplementedError


def cross_entropy(logits, targets):
    raise NotImplementedError


def layer_activations(sequence, batch, hidden, ranks, sequence_parallel):
    raise NotImplementedError
