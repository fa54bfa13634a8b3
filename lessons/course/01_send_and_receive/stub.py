"""{{stub.file}}"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor

from collectives import Recv, Send


def rotate(mine: Tensor) -> Tensor:
    """{{stub.rotate.what}}

    {{stub.rotate.more}}
    """
    rank, size = dist.get_rank(), dist.get_world_size()
    # TODO: {{stub.rotate.todo}}
    raise NotImplementedError


def relay(rank: int, size: int) -> Iterator[Send | Recv]:
    """{{stub.relay}}"""
    # TODO: {{stub.relay_todo}}
    raise NotImplementedError


# {{course.extra}}


def relay_bare(tensor: Tensor) -> None:
    """{{stub.relay_bare}}"""
    rank, size = dist.get_rank(), dist.get_world_size()
    # TODO: {{stub.relay_bare_todo}}
    raise NotImplementedError
