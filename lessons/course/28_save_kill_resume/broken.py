"""{{broken.file}}"""

from __future__ import annotations

import json
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor


def save_sharded(folder: Path, part: dict[str, Tensor], elements: int) -> None:
    """{{broken.save_sharded}}"""
    rank, size = dist.get_rank(), dist.get_world_size()
    if rank == 0:
        files = [f"rank-{one}.pt" for one in range(size)]
        with open(folder / "index.partial", "w") as index:
            json.dump({"elements": elements, "files": files}, index)
            index.flush()
            os.fsync(index.fileno())
        os.replace(folder / "index.partial", folder / "index.json")
    with open(folder / f"rank-{rank}.partial", "wb") as file:
        torch.save(part, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(folder / f"rank-{rank}.partial", folder / f"rank-{rank}.pt")
    dist.barrier()


def load_resharded(folder: Path) -> dict[str, Tensor]:
    """{{broken.load_resharded}}"""
    rank, size = dist.get_rank(), dist.get_world_size()
    index = json.loads((folder / "index.json").read_text())
    whole = torch.cat([torch.load(folder / name)["weight"] for name in index["files"]])
    length = -(-index["elements"] // size)
    own = torch.load(folder / f"rank-{rank}.pt")
    return {"weight": whole[rank * length : (rank + 1) * length], "momentum": own["momentum"]}
