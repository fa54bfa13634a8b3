# expects: rotate: right, but n messages one after the other where 2 or 3 are allowed: only rank 0 sends first
# finding: rotate costs.steps_bare
# says: Right, but it takes 4 messages one after the other on 4 ranks, where 2 would do: what could happen at the same time?
from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor

from collectives import Recv, Send


def rotate(mine: Tensor) -> Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % size, (rank - 1) % size
    theirs = torch.empty_like(mine)
    if rank == 0:
        dist.send(mine, dst=right)
        dist.recv(theirs, src=left)
    else:
        dist.recv(theirs, src=left)
        dist.send(mine, dst=right)
    return theirs


def relay_bare(tensor: Tensor) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    if rank > 0:
        dist.recv(tensor, src=rank - 1)
    if rank < size - 1:
        dist.send(tensor, dst=rank + 1)


def relay(rank: int, size: int) -> Iterator[Send | Recv]:
    if rank > 0:
        yield Recv(0, source=rank - 1)
    if rank < size - 1:
        yield Send(0, to=rank + 1)
