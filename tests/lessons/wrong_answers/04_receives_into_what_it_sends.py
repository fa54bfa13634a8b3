# expects: reduce_scatter_bare: receives into the tensor that it is still sending: a race
# finding: reduce_scatter_bare overlap.receive_over_send
# says: rank 0's receive from rank 2 (04_receives_into_what_it_sends.py:21) writes into memory that its send to rank 1 (04_receives_into_what_it_sends.py:20) may still be reading: receive into a fresh buffer, or wait for the send first
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
        dist.recv(leaving, src=left)
        sending.wait()
        growing += leaving
    return chunks[rank]


def reduce_scatter(rank: int, size: int) -> Iterator[tuple[Send | Reduce, ...]]:
    right, left = (rank + 1) % size, (rank - 1) % size
    for step in range(size - 1):
        yield Send((rank - step - 1) % size, to=right), Reduce((rank - step - 2) % size, source=left)
