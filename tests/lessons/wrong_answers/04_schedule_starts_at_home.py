# expects: reduce_scatter: right data on the wrong rank: the chunk index is off by one at every step
# finding: reduce_scatter repair.chunks
# says: Right data on the wrong rank: the chunk index is off by 1 at every step; send and receive the chunks at your indices −1.
from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor

from collectives import Reduce, Send


def reduce_scatter_bare(chunks: list[Tensor]) -> Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % size, (rank - 1) % size
    for step in range(size - 1):
        leaving = chunks[(rank - step - 1) % size]
        growing = chunks[(rank - step - 2) % size]
        arrived = torch.empty_like(growing)
        sending = dist.isend(leaving, dst=right)
        dist.recv(arrived, src=left)
        sending.wait()
        growing += arrived
    return chunks[rank]


def reduce_scatter(rank: int, size: int) -> Iterator[tuple[Send | Reduce, ...]]:
    right, left = (rank + 1) % size, (rank - 1) % size
    for step in range(size - 1):
        yield Send((rank - step) % size, to=right), Reduce((rank - step - 1) % size, source=left)
