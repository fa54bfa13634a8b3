# expects: scatter_sum: the gathered gradient is divided by the ranks
# finding: scatter_sum tensor.scatter_sum.share
# says: The output is right, but the gradient of x is n times too small. What is a sum gives every summand the gradient as it is: gather the ranks' gradients, and do not divide.
from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def gathered(x: Tensor) -> Tensor:
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x.contiguous())
    return torch.cat(parts, dim=-2)


def scattered(x: Tensor) -> Tensor:
    parts = [part.contiguous() for part in x.chunk(dist.get_world_size(), -2)]
    own = torch.empty_like(parts[0])
    dist.reduce_scatter(own, parts)
    return own


class Scatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return scattered(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gathered(gradient) / dist.get_world_size()


def scatter_sum(x):
    return Scatter.apply(x)


def gather_places(x):
    raise NotImplementedError


def embed(tokens, weight):
    raise NotImplementedError


def cross_entropy(logits, targets):
    raise NotImplementedError


def layer_activations(sequence, batch, hidden, ranks, sequence_parallel):
    raise NotImplementedError
