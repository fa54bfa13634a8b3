# expects: all_reduce: right on 2, 4 and 8 ranks, not on 3: a partner that does not exist
# finding: all_reduce program.powers
# says: Right on 2, 4, 8 ranks, wrong on 3, 5, 6, 7: it counts on a power of two. What happens to the ranks beyond the largest power of two?
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
    tensor /= dist.get_world_size()


def all_reduce(rank: int, size: int) -> Iterator[Send | Recv | Reduce]:
    distance = 1
    while distance < size:
        yield Send(0, to=rank ^ distance), Reduce(0, source=rank ^ distance)
        distance *= 2


def root_bytes(size: int, nbytes: int) -> int:
    return 2 * (size - 1) * nbytes
