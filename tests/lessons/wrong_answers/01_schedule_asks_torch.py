# expects: relay: asks torch.distributed in a schedule
# finding: relay program.no_ranks
# says: relay calls torch.distributed, but no ranks run here: a schedule only says what they would do, and is given rank and size.
from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from collectives import Recv, Send


def rotate(mine: Tensor) -> Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    if size == 1:
        return mine.clone()
    theirs = torch.empty_like(mine)
    sending = dist.isend(mine, dst=(rank + 1) % size)
    dist.recv(theirs, src=(rank - 1) % size)
    sending.wait()
    return theirs


def relay_bare(tensor: Tensor) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    if rank > 0:
        dist.recv(tensor, src=rank - 1)
    if rank < size - 1:
        dist.send(tensor, dst=rank + 1)


def relay(rank, size):
    rank, size = dist.get_rank(), dist.get_world_size()
    if rank > 0:
        yield Recv(0, source=rank - 1)
    if rank < size - 1:
        yield Send(0, to=rank + 1)
