# expects: all_reduce: everything in one step
# finding: all_reduce repair.root_between
# says: All stands in one step, but rank 0 can send only what it has received: make two steps of it. Rank 0 receives, then sends; the others send, then receive.
from __future__ import annotations

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
    for peer in range(1, size):
        dist.recv(theirs, src=peer)
        tensor += theirs
    for peer in range(1, size):
        dist.send(tensor, dst=peer)


def average_bare(tensor: Tensor) -> None:
    all_reduce_bare(tensor)
    tensor /= dist.get_world_size()


def all_reduce(rank, size):
    if rank:
        yield Send(0, to=0), Recv(0, source=0)
    else:
        yield tuple(Reduce(0, source=p) for p in range(1, size)) + tuple(Send(0, to=p) for p in range(1, size))


def root_bytes(size: int, nbytes: int) -> int:
    return 2 * (size - 1) * nbytes
