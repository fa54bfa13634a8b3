# expects: average_bare: rank 0 divides before the sum
# finding: average_bare values.divided_before_by_some
# says: Some of what was added up was divided before (from rank 0), some was not (from rank 1, 2): divide the sum, on every rank, or all that goes into it.
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
    for peer in range(1, size):
        dist.recv(theirs, src=peer)
        tensor += theirs
    for peer in range(1, size):
        dist.send(tensor, dst=peer)


def average_bare(tensor: Tensor) -> None:
    if dist.get_rank() == 0:
        tensor /= dist.get_world_size()
    all_reduce_bare(tensor)


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
