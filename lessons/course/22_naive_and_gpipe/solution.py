"""{{solution.file}}"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor, nn

from parallel.pipeline import Backward, Forward


def naive(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Forward | Backward]:
    """{{solution.naive}}"""
    for i in range(microbatches):
        yield Forward(i)
        yield Backward(i)


def gpipe(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Forward | Backward]:
    """{{solution.gpipe}}"""
    for i in range(microbatches):
        yield Forward(i)
    for i in range(microbatches):
        yield Backward(i)


def bubble(ranks: int, microbatches: int) -> float:
    """{{solution.bubble}}"""
    return (ranks - 1) / (microbatches + ranks - 1)


# {{course.extra}}


def pipeline_step(stage: nn.Module, inputs: Tensor, targets: Tensor, rows: int) -> Tensor | None:
    """{{solution.pipeline_step}}"""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    held = []
    for piece in inputs.split(rows):
        if rank > 0:
            # {{solution.leaf}}
            piece = torch.empty_like(piece)
            dist.recv(piece, src=rank - 1)
            piece.requires_grad_()
        output = stage(piece)
        if rank < last:
            dist.send(output.detach(), dst=rank + 1)
        held.append((piece, output))
    total = torch.zeros((), dtype=inputs.dtype)
    for (piece, output), target in zip(held, targets.split(rows), strict=True):
        if rank == last:
            # {{solution.loss}}
            loss = ((output - target) ** 2).sum() / len(inputs)
            loss.backward()
            total += loss.detach()
        else:
            gradient = torch.empty_like(output)
            dist.recv(gradient, src=rank + 1)
            output.backward(gradient)
        if rank > 0:
            dist.send(piece.grad, dst=rank - 1)
    return total if rank == last else None
