# expects: average_bare: rank 0 has the mean, the others the sum: only rank 0 divides
# finding: average_bare values.divided_by_some
# says: Some ranks (1, 2) have the sum, the others the mean: every rank has to divide, or the root before it sends the result.
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
    all_reduce_bare(tensor)
    if dist.get_rank() == 0:
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
