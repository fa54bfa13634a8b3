# expects: spacing: the same for all numbers
# finding: spacing memory.spacing.everywhere
# says: This is the spacing at 1, for every number. It doubles with each power of two: use the exponent of value.
from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor


def spacing(value: float, bits: int, least: int) -> float:
    return 2.0**-bits


def loss_scale(overflows: Sequence[bool], start: float, interval: int) -> float:
    scale, good = start, 0
    for overflow in overflows:
        good = 0 if overflow else good + 1
        if overflow:
            scale /= 2
        elif good == interval:
            scale, good = scale * 2, 0
    return scale


def mixed_step(
    loss_of: Callable[[Sequence[Tensor]], Tensor],
    weights: Sequence[Tensor],
    masters: Sequence[Tensor],
    scale: float,
    lr: float,
    max_norm: float,
) -> bool:
    scaled = torch.autograd.grad(loss_of(weights) * scale, weights)
    gradients = [gradient.float() / scale for gradient in scaled]
    squares = torch.stack([gradient.square().sum() for gradient in gradients]).sum()
    dist.all_reduce(squares)
    if not squares.isfinite():
        return False
    shrink = min(1.0, max_norm / float(squares.sqrt()))
    with torch.no_grad():
        for weight, master, gradient in zip(weights, masters, gradients, strict=True):
            master -= lr * shrink * gradient
            weight.copy_(master)
    return True
