# expects: reduce_scatter_bare: wrong neighbour: sends to the left, receives from the left; stuck on 3 ranks
# finding: reduce_scatter_bare process.same_neighbour
# says: Wrong neighbour: rank 0 sends to rank 2 and also waits to receive from it, as all do, so nobody hears anything. One of the two must be the neighbour on the other side.
from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor

from collectives import Reduce, Send


def reduce_scatter_bare(chunks: list[Tensor]) -> Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    left = (rank - 1) % size
    for step in range(size - 1):
        leaving = chunks[(rank - step - 1) % size]
        growing = chunks[(rank - step - 2) % size]
        arrived = torch.empty_like(growing)
        sending = dist.isend(leaving, dst=left)
        dist.recv(arrived, src=left)
        sending.wait()
        growing += arrived
    return chunks[rank]


def reduce_scatter(rank: int, size: int) -> Iterator[tuple[Send | Reduce, ...]]:
    right, left = (rank + 1) % size, (rank - 1) % size
    for step in range(size - 1):
        yield Send((rank - step - 1) % size, to=right), Reduce((rank - step - 2) % size, source=left)
