# expects: pipeline_step: rank 0 receives as well
# finding: pipeline_step waits.cycle
# says: rank 0 waits for rank 1, which waits for rank 0: both receive first (rank 0 receives from rank 1, rank 1 receives from rank 0); begin the send and the receive together, with isend and irecv, or let one rank do the opposite first [rank 0 at 22_step_everybody_receives.py:38, rank 1 at 22_step_everybody_receives.py:38]
from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor, nn

from parallel.pipeline import Backward, Forward


def naive(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Forward | Backward]:
    for i in range(microbatches):
        yield Forward(i)
        yield Backward(i)


def gpipe(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Forward | Backward]:
    for i in range(microbatches):
        yield Forward(i)
    for i in range(microbatches):
        yield Backward(i)


def bubble(ranks: int, microbatches: int) -> float:
    return (ranks - 1) / (microbatches + ranks - 1)


def pipeline_step(stage: nn.Module, inputs: Tensor, targets: Tensor, rows: int) -> Tensor | None:
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    held = []
    for piece in inputs.split(rows):
        if rank >= 0:
            piece = torch.empty_like(piece)
            dist.recv(piece, src=(rank - 1) % (last + 1))
            piece.requires_grad_()
        output = stage(piece)
        if rank < last:
            dist.send(output.detach(), dst=rank + 1)
        held.append((piece, output))
    total = torch.zeros((), dtype=inputs.dtype)
    for (piece, output), target in zip(held, targets.split(rows), strict=True):
        if rank == last:
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
