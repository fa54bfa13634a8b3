# expects: all_reduce_bare: only rank 0 is right, the others still have their own data: the sum is not sent back
# finding: all_reduce_bare values.only_ranks
# says: Only some ranks (0) are right; the others (1, 2) still have what they began with. Has the result been sent to them, and written into the tensor that was passed?
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
        return
    theirs = torch.empty_like(tensor)
    for peer in range(1, size):
        dist.recv(theirs, src=peer)
        tensor += theirs


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
