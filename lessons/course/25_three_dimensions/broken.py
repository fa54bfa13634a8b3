"""{{broken.file}}"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from parallel import Mesh


def clip(gradients: list[Tensor], split_over: Sequence[Sequence[str]], max_norm: float, mesh: Mesh) -> float:
    """{{broken.clip}}"""
    total = torch.zeros((), dtype=torch.float64)
    for gradient in gradients:
        total += gradient.square().sum()
    for axis in ("tp", "pp"):
        dist.all_reduce(total, group=mesh.group(axis))
    norm = total.sqrt().item()
    for gradient in gradients:
        gradient *= min(1.0, max_norm / norm)
    return norm


def reduce_tied(gradient: Tensor | None, mesh: Mesh) -> None:
    """{{broken.reduce_tied}}"""
    if gradient is None:
        return
    dist.all_reduce(gradient, group=mesh.group("dp"))
    gradient /= mesh.axes["dp"]
    stages = mesh.ranks("pp")
    if dist.get_rank() == stages[0]:
        dist.send(gradient, stages[-1])  # {{broken.head}}
    else:
        theirs = torch.empty_like(gradient)
        dist.recv(theirs, stages[0])
        gradient += theirs
