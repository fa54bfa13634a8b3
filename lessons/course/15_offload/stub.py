"""{{stub.file}}"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


def forward_seconds(layers: int, compute: float, transfer: float) -> float:
    """{{stub.forward_seconds}}"""
    # TODO: {{stub.forward_seconds_todo}}
    raise NotImplementedError


def least_width(kept: float, bandwidth: float, peak: float) -> float:
    """{{stub.least_width}}"""
    # TODO: {{stub.least_width_todo}}
    raise NotImplementedError


def least_tokens(moved: float, bandwidth: float, peak: float) -> float:
    """{{stub.least_tokens}}"""
    # TODO: {{stub.least_tokens_todo}}
    raise NotImplementedError


def offload(function: Callable[[Tensor], Tensor], x: Tensor, tier: Any, keep: Sequence[Tensor], least: int) -> Tensor:
    """{{stub.offload}}"""
    # TODO: {{stub.offload_todo}}
    raise NotImplementedError
