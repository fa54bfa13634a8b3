"""{{solution.file}}"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from parallel import Mesh


def coordinates(rank: int, dp: int, tp: int) -> tuple[int, int, int]:
    """{{solution.coordinates}}"""
    return rank // (dp * tp), rank // tp % dp, rank % tp


def zero_elements(stage: int, elements: int, dp: int, microbatches: int) -> float:
    """{{solution.zero_elements}}"""
    passes = (2, 2, microbatches + 1, 3 * microbatches)[stage]
    return passes * elements * (dp - 1) / dp


def clip(gradients: list[Tensor], split_over: Sequence[Sequence[str]], max_norm: float, mesh: Mesh) -> float:
    """{{solution.clip}}"""
    here = mesh.coordinates()
    total = torch.zeros((), dtype=torch.float64)
    for gradient, axes in zip(gradients, split_over, strict=True):
        if all(here[axis] == 0 for axis in ("pp", "tp") if axis not in axes):  # {{solution.first}}
            total += gradient.square().sum()
    for axis in ("tp", "pp"):
        dist.all_reduce(total, group=mesh.group(axis))
    norm = total.sqrt().item()
    for gradient in gradients:
        gradient *= min(1.0, max_norm / norm)
    return norm


# {{course.extra}}


def groups(axis: str, pp: int, dp: int, tp: int) -> list[list[int]]:
    """{{solution.groups}}"""
    place = ("pp", "dp", "tp").index(axis)
    found: dict[tuple[int, ...], list[int]] = {}
    for rank in range(pp * dp * tp):
        here = coordinates(rank, dp, tp)
        found.setdefault(here[:place] + here[place + 1 :], []).append(rank)
    return list(found.values())


def seeds(base: int, pp: int, dp: int, tp: int, sharded: bool) -> list[int]:
    """{{solution.seeds}}"""
    return [base + (rank if sharded else rank // tp) for rank in range(pp * dp * tp)]


def reduce_tied(gradient: Tensor | None, mesh: Mesh) -> None:
    """{{solution.reduce_tied}}"""
    if gradient is None:
        return
    dist.all_reduce(gradient, group=mesh.group("dp"))
    gradient /= mesh.axes["dp"]
    stages = mesh.ranks("pp")
    other = stages[-1] if dist.get_rank() == stages[0] else stages[0]
    theirs = torch.empty_like(gradient)
    sending = dist.isend(gradient, other)
    dist.recv(theirs, other)
    sending.wait()
    gradient += theirs
