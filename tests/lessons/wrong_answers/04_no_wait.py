# expects: reduce_scatter_bare: the send is never waited for (a missing wait)
# finding: reduce_scatter_bare log.unwaited
# says: rank 0 never waited for its isend to rank 1 (04_no_wait.py:22): keep what dist.isend returns, and call wait() on it before the tensor is used again
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
        dist.isend(leaving, dst=right)
        dist.recv(arrived, src=left)
        growing += arrived
    return chunks[rank]


def reduce_scatter(rank: int, size: int) -> Iterator[tuple[Send | Reduce, ...]]:
    right, left = (rank + 1) % size, (rank - 1) % size
    for step in range(size - 1):
        yield Send((rank - step - 1) % size, to=right), Reduce((rank - step - 2) % size, source=left)
