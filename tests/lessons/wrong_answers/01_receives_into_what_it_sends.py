# expects: rotate: receives into the tensor that it is still sending, and changes its argument
# finding: rotate overlap.receive_over_send
# says: rank 0's receive from rank 2 (01_receives_into_what_it_sends.py:17) writes into memory that its send to rank 1 (01_receives_into_what_it_sends.py:16) may still be reading: receive into a fresh buffer, or wait for the send first
from __future__ import annotations

from collections.abc import Iterator

import torch.distributed as dist
from torch import Tensor

from collectives import Recv, Send


def rotate(mine: Tensor) -> Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    sending = dist.isend(mine, dst=(rank + 1) % size)
    dist.recv(mine, src=(rank - 1) % size)
    sending.wait()
    return mine


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
