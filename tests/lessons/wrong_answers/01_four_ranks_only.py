# expects: rotate: right on 4 ranks only, the 4 is in the code; on 2 and 3 ranks it sends to one that does not exist
# finding: rotate process.raised
# says: Rank 1 raised first, the others only waited for it: ValueError: dist.isend at 01_four_ranks_only.py:18: dst=2: ranks are 0 to 1; take it modulo the number of ranks
from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor

from collectives import Recv, Send


def rotate(mine: Tensor) -> Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    theirs = torch.empty_like(mine)
    sending = dist.isend(mine, dst=(rank + 1) % 4)
    dist.recv(theirs, src=(rank - 1) % size)
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
