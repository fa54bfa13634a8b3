# expects: relay: receives and passes on in one step
# finding: relay repair.receive_before
# says: A rank passes on in the same step what it receives, but a step sends what was there before it: receive in one step, send in the next.
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
    step = []
    if rank > 0:
        step.append(Recv(0, source=rank - 1))
    if rank < size - 1:
        step.append(Send(0, to=rank + 1))
    yield tuple(step)
