# expects: checkpoint: runs on x itself
# finding: checkpoint memory.checkpoint.attached
# says: x gets its gradient twice: the second run goes on into x itself, and then autograd adds what you return. Run it on x.detach().requires_grad_().
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
        now = torch.get_rng_state()
        torch.set_rng_state(ctx.random)
        with torch.enable_grad():
            output = ctx.function(x)
        torch.set_rng_state(now)
        torch.autograd.backward(output, gradient)
        return None, x.grad


def checkpoint(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    return Recompute.apply(function, x)
