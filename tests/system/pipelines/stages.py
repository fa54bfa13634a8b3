"""Stages to time: one that sleeps as long as it is told, and one that computes."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor, nn

from parallel.deferred import Entry, Owed, add_gradient
from sim.pipeline import Times


class Sleeper(nn.Module):
    """Takes the stated times, whatever the processors do; its weight gradient can wait."""

    owed: Owed | None = None

    def __init__(self, times: Times, chunks: int) -> None:
        super().__init__()
        weight = times.backward / 2 if times.weight is None else times.weight
        self.forward_s, self.weight_s = times.forward / chunks, weight / chunks
        self.input_s = (times.backward - weight) / chunks
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = _Sleep.apply(x, self.weight, self)  # type: ignore[no-untyped-call]
        return out

    def add_weight_gradients(self, x: Tensor, gradient: Tensor) -> None:
        time.sleep(self.weight_s)
        add_gradient(self.weight, (x * gradient).sum())


class _Sleep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, layer: Sleeper) -> Tensor:
        ctx.layer = layer
        ctx.save_for_backward(x)
        time.sleep(layer.forward_s)
        return x * weight

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        time.sleep(ctx.layer.input_s)
        entry = Entry(ctx.layer, x, gradient)
        if ctx.layer.owed is None:
            entry.pay()
        else:
            ctx.layer.owed.entries.append(entry)
        return gradient.clone(), None, None


def worker(width: int, depth: int) -> nn.Module:
    """A stage that computes, the same on all ranks."""
    return nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(depth)))
