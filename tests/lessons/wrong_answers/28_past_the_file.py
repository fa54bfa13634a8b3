# expects: hand_over: half of it in the file, the rest handed over in memory
# finding: hand_over zero.hand_over.beside
# says: `new` has what it needs, but not all of it stands in the file: something went straight from `old` to `new`. When a run goes on, `old` is gone. Take everything out of what `torch.load(path)` gives.
from __future__ import annotations

import copy
import io
import json
import math
import os
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor


class Run(Protocol):
    weight: Tensor
    optimizer: torch.optim.Optimizer
    generator: torch.Generator
    position: int
    step: int


def as_bytes(thing: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(thing, buffer)
    return buffer.getvalue()


def write_safely(path: Path, content: bytes) -> None:
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def save_sharded(folder: Path, part: dict[str, Tensor], elements: int) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    write_safely(folder / f"rank-{rank}.pt", as_bytes(part))
    dist.barrier()
    if rank == 0:
        index = {"elements": elements, "files": [f"rank-{one}.pt" for one in range(size)]}
        write_safely(folder / "index.json", json.dumps(index).encode())
    dist.barrier()


def load_resharded(folder: Path) -> dict[str, Tensor]:
    rank, size = dist.get_rank(), dist.get_world_size()
    index = json.loads((folder / "index.json").read_text())
    parts = [torch.load(folder / name) for name in index["files"]]
    length = -(-index["elements"] // size)
    own = slice(rank * length, (rank + 1) * length)
    return {key: torch.cat([part[key] for part in parts])[own] for key in ("weight", "momentum")}


def hand_over(old: Run, new: Run, path: Path) -> None:
    write_safely(path, as_bytes({"weight": old.weight, "position": old.position, "step": old.step}))
    saved = torch.load(path)
    new.weight.copy_(saved["weight"])
    new.optimizer.load_state_dict(copy.deepcopy(old.optimizer.state_dict()))
    new.generator.set_state(old.generator.get_state())
    new.position, new.step = saved["position"], saved["step"]


def save_every(mtbf: float, ranks: int, write: float) -> float:
    return math.sqrt(2 * write * mtbf / ranks)
