"""{{solution.file}}"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor


def spacing(value: float, bits: int, least: int) -> float:
    """{{solution.spacing}}"""
    exponent = max(math.floor(math.log2(abs(value))), least)
    return 2.0 ** (exponent - bits)


def mixed_step(
    loss_of: Callable[[Sequence[Tensor]], Tensor],
    weights: Sequence[Tensor],
    masters: Sequence[Tensor],
    scale: float,
    lr: float,
    max_norm: float,
) -> bool:
    """{{solution.mixed_step}}"""
    scaled = torch.autograd.grad(loss_of(weights) * scale, weights)
    gradients = [gradient.float() / scale for gradient in scaled]
    # {{solution.squares}}
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


# {{course.extra}}


def loss_scale(overflows: Sequence[bool], start: float, interval: int) -> float:
    """{{solution.loss_scale}}"""
    scale, good = start, 0
    for overflow in overflows:
        good = 0 if overflow else good + 1
        if overflow:
            scale /= 2
        elif good == interval:
            scale, good = scale * 2, 0
    return scale
