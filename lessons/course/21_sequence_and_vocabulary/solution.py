"""{{solution.file}}"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import embedding

from lessons.finished import finished

g = finished("g")


def gathered(x: Tensor) -> Tensor:
    """{{solution.gathered}}"""
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x.contiguous())
    return torch.cat(parts, dim=-2)


def scattered(x: Tensor) -> Tensor:
    """{{solution.scattered}}"""
    parts = [part.contiguous() for part in x.chunk(dist.get_world_size(), dim=-2)]
    own = torch.empty_like(parts[0])
    dist.reduce_scatter(own, parts)
    return own


class GatherPlaces(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return gathered(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return scattered(gradient)


class ScatterSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return scattered(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gathered(gradient)


def gather_places(x: Tensor) -> Tensor:
    """{{solution.gather_places}}"""
    return GatherPlaces.apply(x)


def scatter_sum(x: Tensor) -> Tensor:
    """{{solution.scatter_sum}}"""
    return ScatterSum.apply(x)


def embed(tokens: Tensor, weight: Tensor) -> Tensor:
    """{{solution.embed}}"""
    local = tokens - dist.get_rank() * len(weight)
    foreign = (local < 0) | (local >= len(weight))
    rows = embedding(local.masked_fill(foreign, 0), weight)
    return g(rows.masked_fill(foreign.unsqueeze(-1), 0))


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """{{solution.cross_entropy}}"""
    largest = logits.detach().amax(-1)
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    shifted = logits - largest.unsqueeze(-1)
    local = targets - dist.get_rank() * logits.shape[-1]
    foreign = (local < 0) | (local >= logits.shape[-1])
    own = shifted.gather(-1, local.masked_fill(foreign, 0).unsqueeze(-1)).squeeze(-1)
    # {{solution.three}}
    total, at_target = g(torch.stack([shifted.exp().sum(-1), own.masked_fill(foreign, 0)]))
    return (total.log() - at_target).mean()


def layer_activations(sequence: int, batch: int, hidden: int, ranks: int, sequence_parallel: bool) -> float:
    """{{solution.layer_activations}}"""
    between = 10 / ranks if sequence_parallel else 10
    return sequence * batch * hidden * (between + 24 / ranks)
