# expects: rotate: never waited for its irecv: the result is returned before it has come
# finding: rotate log.unwaited
# says: rank 0 never waited for its irecv from rank 2 (01_missing_wait.py:18): keep what dist.irecv returns, and call wait() on it before the tensor is used again
from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor

from collectives import Recv, Send


def rotate(mine: Tensor) -> Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    theirs = torch.empty_like(mine)
    dist.irecv(theirs, src=(rank - 1) % size)
    dist.send(mine, dst=(rank + 1) % size)
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
