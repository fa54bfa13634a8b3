# expects: checkpoint: the second run is not recorded
# finding: checkpoint alone.process.all_raised
# says: It raised RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def peak_bytes(layers: int, segments: int, inside: int, border: int) -> int:
    longest = math.ceil(layers / segments)
    return segments * border + longest * (inside + border) - border


def best_segments(layers: int, inside: int, border: int) -> int:
    return min(range(1, layers + 1), key=lambda segments: peak_bytes(layers, segments, inside, border))


class Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        ctx.function, ctx.random = function, torch.get_rng_state()
        ctx.save_for_backward(x)
        return function(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor | None]:
        (x,) = ctx.saved_tensors
        x = x.detach().requires_grad_()
        now = torch.get_rng_state()
        torch.set_rng_state(ctx.random)
        output = ctx.function(x)
        torch.set_rng_state(now)
        torch.autograd.backward(output, gradient)
        return None, x.grad


def checkpoint(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    return Recompute.apply(function, x)
