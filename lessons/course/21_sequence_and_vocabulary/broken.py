"""{{broken.file}}"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import embedding

from lessons.finished import finished

g = finished("g")


def embed(tokens: Tensor, weight: Tensor) -> Tensor:
    """{{broken.embed}}"""
    local = tokens - dist.get_rank() * len(weight)
    # {{broken.clamp}}
    return g(embedding(local.clamp(0, len(weight) - 1), weight))


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """{{broken.cross_entropy}}"""
    # {{broken.stable}}
    shifted = logits - logits.detach().amax(-1, keepdim=True)
    local = targets - dist.get_rank() * logits.shape[-1]
    foreign = (local < 0) | (local >= logits.shape[-1])
    own = shifted.gather(-1, local.masked_fill(foreign, 0).unsqueeze(-1)).squeeze(-1)
    total, at_target = g(torch.stack([shifted.exp().sum(-1), own.masked_fill(foreign, 0)]))
    return (total.log() - at_target).mean()
