# expects: split_bubble: B is the whole backward
# finding: split_bubble pipelines.split_bubble.whole
# says: This is (p−1)·(F + I): W follows its I at once, or B stands for the whole backward, where the paper means the input's half only. ZB-H1 puts W off, so that it fills a part of the wait: F + I − W.
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
    return (ranks - 1) * (forward + input + weight - weight)


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
