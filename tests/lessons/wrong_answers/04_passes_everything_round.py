# expects: reduce_scatter_bare: right, but whole buffers are sent, n-1 of them (all-gather)
# finding: reduce_scatter_bare costs.whole
# says: Each message is the whole buffer: a rank sends 3× the buffer on 4 ranks, where 3/4× is enough. Cut it into chunks, and send one at a time.
from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor

from collectives import Reduce, Send


def reduce_scatter_bare(chunks: list[Tensor]) -> Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % size, (rank - 1) % size
    leaving, total = torch.stack(chunks), chunks[rank].clone()
    for _ in range(size - 1):
        arrived = torch.empty_like(leaving)
        sending = dist.isend(leaving, dst=right)
        dist.recv(arrived, src=left)
        sending.wait()
        total += arrived[rank]
        leaving = arrived
    return total


def reduce_scatter(rank: int, size: int) -> Iterator[tuple[Send | Reduce, ...]]:
    right, left = (rank + 1) % size, (rank - 1) % size
    for step in range(size - 1):
        yield Send((rank - step - 1) % size, to=right), Reduce((rank - step - 2) % size, source=left)
