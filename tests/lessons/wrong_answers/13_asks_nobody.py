# expects: mixed_step: clips, and skips, by its own gradients alone
# finding: mixed_step memory.mixed_step.asks_nobody
# says: No rank asks another: each clips by the norm of its own layers, and leaves a step out by itself. All-reduce the sum of squares: it gives the norm of the whole gradient, and is finite only if every gradient is.
from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def spacing(value: float, bits: int, least: int) -> float:
    exponent = max(math.floor(math.log2(abs(value))), least)
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
    if not squares.isfinite():
        return False
    shrink = min(1.0, max_norm / float(squares.sqrt()))
    with torch.no_grad():
        for weight, master, gradient in zip(weights, masters, gradients, strict=True):
            master -= lr * shrink * gradient
            weight.copy_(master)
    return True
