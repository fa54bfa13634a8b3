"""{{stub.file}}"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor

from collectives import Recv, Reduce, Send
from lessons.finished import finished

# {{stub.finished}}
reduce_scatter = finished("reduce_scatter")


def all_reduce_bare(tensor: Tensor, op: str = "sum") -> None:
    """{{stub.all_reduce_bare}}"""
    rank, size = dist.get_rank(), dist.get_world_size()
    # TODO: {{stub.all_reduce_bare_todo}}
    raise NotImplementedError


def all_gather(rank: int, size: int) -> Iterator[tuple[Send | Recv, ...]]:
    """{{stub.all_gather}}"""
    # TODO: {{stub.all_gather_todo}}
    raise NotImplementedError


def all_reduce(rank: int, size: int) -> Iterator[tuple[Send | Recv | Reduce, ...]]:
    """{{stub.all_reduce}}"""
    # TODO: {{stub.all_reduce_todo}}
    raise NotImplementedError
