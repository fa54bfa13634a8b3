# expects: golf: weight gradients some places back, from the first on
# finding: golf timetable.negative
# says: BackwardWeight(-1) on rank 1 (3 ranks, 4 microbatches): there is no microbatch before number 0. Ask whether there is one so many places back before you take it.
from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor

from parallel.pipeline import BackwardInput, BackwardWeight, Forward


def backward_in_two(x: Tensor, weight: Tensor, gradient: Tensor | None) -> Tensor:
    rank = dist.get_rank()
    if gradient is None:
        gradient = torch.empty(len(x), len(weight), dtype=x.dtype)
        dist.recv(gradient, src=rank + 1)
    if rank > 0:
        dist.send(gradient @ weight, dst=rank - 1)
    return gradient.T @ x


def split_bubble(ranks: int, forward: float, input: float, weight: float) -> float:
    return (ranks - 1) * (forward + input - weight)


def golf(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Forward | BackwardInput | BackwardWeight]:
    ahead = min(ranks - rank - 1, microbatches)
    for i in range(ahead):
        yield Forward(i)
    for i in range(microbatches):
        if ahead + i < microbatches:
            yield Forward(ahead + i)
        yield BackwardInput(i)
        yield BackwardWeight(i - rank)
    for i in range(microbatches - rank, microbatches):
        yield BackwardWeight(i)
