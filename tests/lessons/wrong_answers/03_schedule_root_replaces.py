# expects: all_reduce: rank 0 replaces where it should add
# finding: all_reduce repair.reduce
# says: What is received by rank 0 replaces the chunk, and its contributions are lost: it should be added (Reduce in place of Recv).
from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from collectives import Recv, Send


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
        yield Send(0, to=0)
        yield Recv(0, source=0)
    else:
        for p in range(1, size):
            yield Recv(0, source=p)
        for p in range(1, size):
            yield Send(0, to=p)


def root_bytes(size: int, nbytes: int) -> int:
    return 2 * (size - 1) * nbytes
