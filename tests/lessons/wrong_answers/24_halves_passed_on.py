# expects: backward_in_two: the gradient is passed on as it came
# finding: backward_in_two pipelines.backward_in_two.passed_on
# says: The gradient is passed on as it came. It is that of this layer's output; the rank before needs that of its input: gradient @ weight.
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
        dist.send(gradient, dst=rank - 1)
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
