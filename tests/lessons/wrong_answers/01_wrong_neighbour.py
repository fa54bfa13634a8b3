# expects: rotate: the data of the wrong neighbour, rank+1's where rank-1's was asked; 2 ranks do not show it
# finding: rotate values.neighbour
# says: Wrong neighbour: rank 0 has the tensor of rank 1, and should have that of rank 2. Left is (rank − 1) % size.
from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor

from collectives import Recv, Send


def rotate(mine: Tensor) -> Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    theirs = torch.empty_like(mine)
    sending = dist.isend(mine, dst=(rank - 1) % size)
    dist.recv(theirs, src=(rank + 1) % size)
    sending.wait()
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
