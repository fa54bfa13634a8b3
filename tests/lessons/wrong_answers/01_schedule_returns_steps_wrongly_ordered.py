# expects: relay: returns a tuple of steps, the send before the receive
# finding: relay repair.receive_first
# says: A rank sends before it has received what it is to pass on: receive first, then send.
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
    if rank == 0:
        return (Send(0, to=1),)
    if rank == size - 1:
        return (Recv(0, source=rank - 1),)
    return Send(0, to=rank + 1), Recv(0, source=rank - 1)
