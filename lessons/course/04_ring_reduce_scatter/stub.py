"""{{stub.file}}"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor

from collectives import Reduce, Send


def reduce_scatter_bare(chunks: list[Tensor]) -> Tensor:
    """{{stub.reduce_scatter_bare}}"""
    rank, size = dist.get_rank(), dist.get_world_size()
    # TODO: {{stub.reduce_scatter_bare_todo}}
    raise NotImplementedError


def reduce_scatter(rank: int, size: int) -> Iterator[tuple[Send | Reduce, ...]]:
    """{{stub.reduce_scatter}}"""
    # TODO: {{stub.reduce_scatter_todo}}
    raise NotImplementedError
