# expects: checkpoint: the random stream stands where it was in the forward
# finding: checkpoint memory.checkpoint.rewinds
# says: After the backward the random generator stands where it stood in the forward: the numbers that follow have been drawn already. Set it back to where it was on entering backward.
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
        torch.set_rng_state(ctx.random)
        with torch.enable_grad():
            output = ctx.function(x)
        torch.autograd.backward(output, gradient)
        return None, x.grad


def checkpoint(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    return Recompute.apply(function, x)
