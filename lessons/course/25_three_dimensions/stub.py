"""{{stub.file}}"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from parallel import Mesh


def coordinates(rank: int, dp: int, tp: int) -> tuple[int, int, int]:
    """{{stub.coordinates}}"""
    # TODO: {{stub.coordinates_todo}}
    raise NotImplementedError


def zero_elements(stage: int, elements: int, dp: int, microbatches: int) -> float:
    """{{stub.zero_elements}}"""
    # TODO: {{stub.zero_elements_todo}}
    raise NotImplementedError


def clip(gradients: list[Tensor], split_over: Sequence[Sequence[str]], max_norm: float, mesh: Mesh) -> float:
    """{{stub.clip}}"""
    here = mesh.coordinates()
    # TODO: {{stub.clip_todo}}
    raise NotImplementedError


# {{course.extra}}


def groups(axis: str, pp: int, dp: int, tp: int) -> list[list[int]]:
    """{{stub.groups}}"""
    # TODO: {{stub.groups_todo}}
    raise NotImplementedError


def seeds(base: int, pp: int, dp: int, tp: int, sharded: bool) -> list[int]:
    """{{stub.seeds}}"""
    # TODO: {{stub.seeds_todo}}
    raise NotImplementedError


def reduce_tied(gradient: Tensor | None, mesh: Mesh) -> None:
    """{{stub.reduce_tied}}"""
    # TODO: {{stub.reduce_tied_todo}}
    raise NotImplementedError
