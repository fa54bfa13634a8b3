"""{{broken.file}}"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor


def mixed_step(
    loss_of: Callable[[Sequence[Tensor]], Tensor],
    weights: Sequence[Tensor],
    masters: Sequence[Tensor],
    scale: float,
    lr: float,
    max_norm: float,
) -> bool:
    """{{broken.mixed_step}}"""
    gradients = torch.autograd.grad(loss_of(weights) * scale, weights)
    squares = torch.stack([gradient.float().square().sum() for gradient in gradients]).sum()
    dist.all_reduce(squares)
    if not squares.isfinite():
        return False
    shrink = min(1.0, max_norm / float(squares.sqrt()))
    with torch.no_grad():
        for weight, master, gradient in zip(weights, masters, gradients, strict=True):
            master -= lr * shrink * gradient.float() / scale
            weight.copy_(master)
    return True
