"""{{stub.file}}"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor, nn

from parallel.pipeline import Backward, Forward


def naive(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Forward | Backward]:
    """{{stub.naive}}"""
    # TODO: {{stub.naive_todo}}
    raise NotImplementedError


def gpipe(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Forward | Backward]:
    """{{stub.gpipe}}"""
    # TODO: {{stub.gpipe_todo}}
    raise NotImplementedError


def bubble(ranks: int, microbatches: int) -> float:
    """{{stub.bubble}}"""
    # TODO: {{stub.bubble_todo}}
    raise NotImplementedError


# {{course.extra}}


def pipeline_step(stage: nn.Module, inputs: Tensor, targets: Tensor, rows: int) -> Tensor | None:
    """{{stub.pipeline_step}}"""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    # TODO: {{stub.pipeline_step_todo}}
    raise NotImplementedError
