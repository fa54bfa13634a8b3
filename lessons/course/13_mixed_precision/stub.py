"""{{stub.file}}"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor


def spacing(value: float, bits: int, least: int) -> float:
    """{{stub.spacing}}"""
    # TODO: {{stub.spacing_todo}}
    raise NotImplementedError


def mixed_step(
    loss_of: Callable[[Sequence[Tensor]], Tensor],
    weights: Sequence[Tensor],
    masters: Sequence[Tensor],
    scale: float,
    lr: float,
    max_norm: float,
) -> bool:
    """{{stub.mixed_step}}"""
    # TODO: {{stub.mixed_step_todo}}
    raise NotImplementedError


# {{course.extra}}


def loss_scale(overflows: Sequence[bool], start: float, interval: int) -> float:
    """{{stub.loss_scale}}"""
    # TODO: {{stub.loss_scale_todo}}
    raise NotImplementedError
