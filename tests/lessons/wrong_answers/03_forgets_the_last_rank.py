# expects: all_reduce_bare: the loop ends one early: the last rank waits to send to rank 0, who has ended
# finding: all_reduce_bare log.never_received
# says: rank 1 waits to send to rank 0 (03_forgets_the_last_rank.py:18), which never receives it: it has ended, with no receives from rank 1; add the missing receive, or take this one away
from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor

from collectives import Recv, Reduce, Send


def all_reduce_bare(tensor: Tensor) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    if rank > 0:
        dist.send(tensor, dst=0)
        dist.recv(tensor, src=0)
        return
    theirs = torch.empty_like(tensor)
    for peer in range(1, size - 1):
        dist.recv(theirs, src=peer)
        tensor += theirs
    for peer in range(1, size - 1):
        dist.send(tensor, dst=peer)


def average_bare(tensor: Tensor) -> None:
    all_reduce_bare(tensor)
    tensor /= dist.get_world_size()


def all_reduce(rank: int, size: int) -> Iterator[Send | Recv | Reduce]:
    if rank > 0:
        yield Send(0, to=0)
        yield Recv(0, source=0)
        return
    for peer in range(1, size):
        yield Reduce(0, source=peer)
    for peer in range(1, size):
        yield Send(0, to=peer)


def root_bytes(size: int, nbytes: int) -> int:
    return 2 * (size - 1) * nbytes
