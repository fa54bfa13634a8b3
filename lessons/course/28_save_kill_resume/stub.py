"""{{stub.file}}"""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor


class Run(Protocol):
    """{{stub.run}}"""

    weight: Tensor
    optimizer: torch.optim.Optimizer
    generator: torch.Generator
    position: int
    step: int


def as_bytes(thing: Any) -> bytes:
    """{{stub.as_bytes}}"""
    buffer = io.BytesIO()
    torch.save(thing, buffer)
    return buffer.getvalue()


def write_safely(path: Path, content: bytes) -> None:
    """{{stub.write_safely}}"""
    # TODO: {{stub.write_safely_todo}}
    raise NotImplementedError


def save_sharded(folder: Path, part: dict[str, Tensor], elements: int) -> None:
    """{{stub.save_sharded}}"""
    rank, size = dist.get_rank(), dist.get_world_size()
    # TODO: {{stub.save_sharded_todo}}
    raise NotImplementedError


def load_resharded(folder: Path) -> dict[str, Tensor]:
    """{{stub.load_resharded}}"""
    rank, size = dist.get_rank(), dist.get_world_size()
    index = json.loads((folder / "index.json").read_text())
    # TODO: {{stub.load_resharded_todo}}
    raise NotImplementedError


def hand_over(old: Run, new: Run, path: Path) -> None:
    """{{stub.hand_over}}"""
    # TODO: {{stub.hand_over_todo}}
    raise NotImplementedError


def save_every(mtbf: float, ranks: int, write: float) -> float:
    """{{stub.save_every}}"""
    # TODO: {{stub.save_every_todo}}
    raise NotImplementedError
