# expects: spacing: log2 without floor
# finding: spacing memory.spacing.no_floor
# says: The exponent is not rounded: log2 of 1.5 is no whole number. All numbers from 2^e to 2^(e+1) share the exponent e: round down.
from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor


def spacing(value: float, bits: int, least: int) -> float:
    exponent = max(math.log2(abs(value)), least)
    return 2.0 ** (exponent - bits)


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
