# expects: rotate: deadlock, all send first
# finding: rotate waits.cycle
# says: rank 0 waits for rank 1, which waits for rank 0: both send first (rank 0 sends to rank 1, rank 1 sends to rank 0); begin the send and the receive together, with isend and irecv, or let one rank do the opposite first [rank 0 at 01_all_send_first.py:18, rank 1 at 01_all_send_first.py:18]
from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor

from collectives import Recv, Send


def rotate(mine: Tensor) -> Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    theirs = torch.empty_like(mine)
    dist.send(mine, dst=(rank + 1) % size)
    dist.recv(theirs, src=(rank - 1) % size)
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
