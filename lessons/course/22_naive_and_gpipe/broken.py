"""{{broken.file}}"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn


def pipeline_step(stage: nn.Module, inputs: Tensor, targets: Tensor, rows: int) -> Tensor | None:
    """{{broken.pipeline_step}}"""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    pieces = inputs.split(rows)
    held = []
    for piece in pieces:
        if rank > 0:
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
            # {{broken.loss}}
            loss = ((output - target) ** 2).sum(dim=1).mean() / len(pieces)
            loss.backward()
            total += loss.detach()
        else:
            gradient = torch.empty_like(output)
            dist.recv(gradient, src=rank + 1)
            output.backward(gradient)
        if rank > 0:
            dist.send(piece.grad, dst=rank - 1)
    return total if rank == last else None
