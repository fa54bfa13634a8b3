# expects: reduce_scatter_bare: from the second step on, what arrives is added to the wrong chunk
# finding: reduce_scatter_bare values.index
# says: The chunk index is off: rank 0 returns its own chunk, but nothing has been added to it. What arrives in the last step must be added to chunk number rank, and each chunk is sent on in the step after it was added to.
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
        growing = chunks[(rank - 2 * step - 2) % size]
        arrived = torch.empty_like(growing)
        sending = dist.isend(leaving, dst=right)
        dist.recv(arrived, src=left)
        sending.wait()
        growing += arrived
    return chunks[rank]


def reduce_scatter(rank: int, size: int) -> Iterator[tuple[Send | Reduce, ...]]:
    right, left = (rank + 1) % size, (rank - 1) % size
    for step in range(size - 1):
        yield Send((rank - step - 1) % size, to=right), Reduce((rank - step - 2) % size, source=left)
