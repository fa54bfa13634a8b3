"""{{stub.file}}"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor

from collectives import Recv, Reduce, Send


def all_reduce_bare(tensor: Tensor) -> None:
    """{{stub.all_reduce_bare}}"""
    rank, size = dist.get_rank(), dist.get_world_size()
    # TODO: {{stub.all_reduce_bare_todo}}
    raise NotImplementedError


def average_bare(tensor: Tensor) -> None:
    """{{stub.average_bare}}"""
    # TODO: {{stub.average_bare_todo}}
    raise NotImplementedError


def root_bytes(size: int, nbytes: int) -> int:
    """{{stub.root_bytes}}"""
    # TODO: {{stub.root_bytes_todo}}
    raise NotImplementedError


# {{course.extra}}


def all_reduce(rank: int, size: int) -> Iterator[Send | Recv | Reduce]:
    """{{stub.all_reduce}}"""
    # TODO: {{stub.all_reduce_todo}}
    raise NotImplementedError
