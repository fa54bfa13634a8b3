# expects: backward_in_two: nothing is sent
# finding: backward_in_two log.never_sent
# says: rank 0 waits to receive from rank 1 (24_halves_not_sent.py:19), which never sends it: it has ended, with no sends to rank 0; add the missing send, or take this one away
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
        if i >= rank:
            yield BackwardWeight(i - rank)
    for i in range(max(microbatches - rank, 0), microbatches):
        yield BackwardWeight(i)
