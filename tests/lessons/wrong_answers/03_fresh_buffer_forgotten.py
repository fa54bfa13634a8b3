# expects: all_reduce_bare: rank 0 receives into its own tensor: what is left is the last rank's data, twice
# finding: all_reduce_bare values.added_to_itself
# says: Rank 0 ends with the contribution of rank 2 2 times and not with its own, at position 0: it receives into its own data and adds that to itself. Receive into a fresh buffer, then add.
from __future__ import annotations

from collections.abc import Iterator

import torch.distributed as dist
from torch import Tensor

from collectives import Recv, Reduce, Send


def all_reduce_bare(tensor: Tensor) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    if rank > 0:
        dist.send(tensor, dst=0)
        dist.recv(tensor, src=0)
        return
    theirs = tensor
    for peer in range(1, size):
        dist.recv(theirs, src=peer)
        tensor += theirs
    for peer in range(1, size):
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
