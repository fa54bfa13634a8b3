# expects: reduce_scatter_bare: no fresh buffer: what arrives overwrites the own contribution
# finding: reduce_scatter_bare values.overwritten
# says: Rank 0's own contribution is lost, at position 0: it receives into its own data. Receive into a fresh buffer, then add.
from __future__ import annotations

from collections.abc import Iterator

import torch.distributed as dist
from torch import Tensor

from collectives import Reduce, Send


def reduce_scatter_bare(chunks: list[Tensor]) -> Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % size, (rank - 1) % size
    for step in range(size - 1):
        leaving = chunks[(rank - step - 1) % size]
        growing = chunks[(rank - step - 2) % size]
        sending = dist.isend(leaving, dst=right)
        dist.recv(growing, src=left)
        sending.wait()
    return chunks[rank]


def reduce_scatter(rank: int, size: int) -> Iterator[tuple[Send | Reduce, ...]]:
    right, left = (rank + 1) % size, (rank - 1) % size
    for step in range(size - 1):
        yield Send((rank - step - 1) % size, to=right), Reduce((rank - step - 2) % size, source=left)
