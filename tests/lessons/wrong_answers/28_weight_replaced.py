# expects: hand_over: a weight that the optimizer does not know
# finding: hand_over zero.hand_over.other_tensor
# says: `new.weight` is another tensor now, and the optimizer goes on with the one it was made with: nothing is trained any more. Put the numbers into the tensor that is there, `new.weight.copy_(…)`.
from __future__ import annotations

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
    saved = {
        "weight": old.weight,
        "optimizer": old.optimizer.state_dict(),
        "random": old.generator.get_state(),
        "position": old.position,
        "step": old.step,
    }
    write_safely(path, as_bytes(saved))
    saved = torch.load(path)
    new.weight = saved["weight"]
    new.optimizer.load_state_dict(saved["optimizer"])
    new.generator.set_state(saved["random"])
    new.position, new.step = saved["position"], saved["step"]


def save_every(mtbf: float, ranks: int, write: float) -> float:
    return math.sqrt(2 * write * mtbf / ranks)
