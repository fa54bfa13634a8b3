"""{{stub.file}}"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def peak_bytes(layers: int, segments: int, inside: int, border: int) -> int:
    """{{stub.peak_bytes}}"""
    # TODO: {{stub.peak_bytes_todo}}
    raise NotImplementedError


def best_segments(layers: int, inside: int, border: int) -> int:
    """{{stub.best_segments}}"""
    # TODO: {{stub.best_segments_todo}}
    raise NotImplementedError


class Recompute(torch.autograd.Function):
    """{{stub.recompute}}"""

    @staticmethod
    def forward(ctx: Any, function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        # TODO: {{stub.forward_todo}}
        raise NotImplementedError

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        # TODO: {{stub.backward_todo}}
        raise NotImplementedError


def checkpoint(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """{{stub.checkpoint}}"""
    # TODO: {{stub.checkpoint_todo}}
    raise NotImplementedError
