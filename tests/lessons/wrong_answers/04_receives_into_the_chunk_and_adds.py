# expects: reduce_scatter_bare: no fresh buffer: what arrives overwrites the own one and is added to itself
# finding: reduce_scatter_bare values.added_to_itself
# says: Rank 0 ends with the contribution of rank 1 4 times and not with its own, at position 0: it receives into its own data and adds that to itself. Receive into a fresh buffer, then add.
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
        arrived = growing
        sending = dist.isend(leaving, dst=right)
        dist.recv(arrived, src=left)
        sending.wait()
        growing += arrived
    return chunks[rank]


def reduce_scatter(rank: int, size: int) -> Iterator[tuple[Send | Reduce, ...]]:
    right, left = (rank + 1) % size, (rank - 1) % size
    for step in range(size - 1):
        yield Send((rank - step - 1) % size, to=right), Reduce((rank - step - 2) % size, source=left)
