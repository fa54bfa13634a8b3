# expects: reduce_scatter_bare: a deadlock: every rank sends (blocking) before any receives
# finding: reduce_scatter_bare waits.cycle
# says: rank 0 waits for rank 1, which waits for rank 0: both send first (rank 0 sends to rank 1, rank 1 sends to rank 0); begin the send and the receive together, with isend and irecv, or let one rank do the opposite first [rank 0 at 04_everybody_sends_first.py:22, rank 1 at 04_everybody_sends_first.py:22]
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
        dist.send(leaving, dst=right)
        dist.recv(arrived, src=left)
        growing += arrived
    return chunks[rank]


def reduce_scatter(rank: int, size: int) -> Iterator[tuple[Send | Reduce, ...]]:
    right, left = (rank + 1) % size, (rank - 1) % size
    for step in range(size - 1):
        yield Send((rank - step - 1) % size, to=right), Reduce((rank - step - 2) % size, source=left)
