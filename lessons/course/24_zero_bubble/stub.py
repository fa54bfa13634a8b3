"""{{stub.file}}"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor

from parallel.pipeline import BackwardInput, BackwardWeight, Forward


def backward_in_two(x: Tensor, weight: Tensor, gradient: Tensor | None) -> Tensor:
    """{{stub.backward_in_two}}"""
    rank = dist.get_rank()
    # TODO: {{stub.backward_in_two_todo}}
    raise NotImplementedError


def split_bubble(ranks: int, forward: float, input: float, weight: float) -> float:
    """{{stub.split_bubble}}"""
    # TODO: {{stub.split_bubble_todo}}
    raise NotImplementedError


def golf(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Forward | BackwardInput | BackwardWeight]:
    """{{stub.golf}}"""
    # TODO: {{stub.golf_todo}}
    raise NotImplementedError
