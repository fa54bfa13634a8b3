# expects: relay: the buffer is one chunk, number 0
# finding: relay repair.one_chunk
# says: The buffer is one chunk here, number 0: that is the chunk of every Send, Recv and Reduce.
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
    if rank > 0:
        yield Recv(rank - 1, source=rank - 1)
    if rank < size - 1:
        yield Send(rank, to=rank + 1)
