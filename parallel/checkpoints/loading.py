"""Load: every rank takes what it holds out of all files, whoever wrote them, on however many ranks.

rank-00000 ┌───────┐                     ┌─────┐ rank 0 of 3
           │ a a a │   whole a, in turn  │ a a │
rank-00001 ├───────┤ ─────────────────▶  ├─────┤ rank 1
           │ a a a │   cut as held here  │ a a │
           └───────┘                     ├─────┤ rank 2
                                         └─────┘

One tensor is whole at a time, on the CPU; each rank reads all of what it needs a part of.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors import SafetensorError, safe_open
from torch import Tensor

from .holding import WEIGHT, Holding
from .index import NAME, Entry, Index
from .together import together


def load(path: Path, holdings: Iterable[Holding]) -> dict[str, Any]:
    """Restore what this rank holds; all ranks call it. Let ``Zero`` or ``MixedPrecision`` ``publish()`` afterwards.

    Args:
        path: of one checkpoint (see ``folder.find``), the same on all ranks.

    Returns:
        The shared state that was saved.

    Raises:
        ValueError: files that are missing, damaged or not a checkpoint's, or another model's; nothing was changed.
    """
    mine = list(holdings)
    together(partial(_check_files, path, dist.get_rank(), dist.get_world_size()), "use an earlier checkpoint")
    index = Index.read(path / NAME)
    named = together(partial(_check_names, path, index, mine))
    together(partial(_check_all_read, path, index, {name for names in named for name in names}))
    with ExitStack() as opened:
        files = {name: opened.enter_context(safe_open(path / name, "pt")) for name in index.files}
        for holding in mine:
            entry = index.tensors[holding.name]
            tensors = {key: _read(files, holding, entry, key) for key in entry.keys}
            holding.restore(tensors, entry.numbers)
    return index.state


def _read(files: dict[str, Any], holding: Holding, entry: Entry, key: str) -> Tensor:
    """This rank's elements of one of a parameter's tensors, flat."""
    whole = torch.zeros(entry.shape, dtype=getattr(torch, entry.keys[key]))
    wanted = f"{holding.name}/{key}"
    for file, place in entry.parts:
        if wanted in set(files[file].keys()):
            place.fill(whole, files[file].get_tensor(wanted))
    return holding.place.cut(whole)


def _check_files(path: Path, rank: int, ranks: int) -> None:
    """Size and sum of every file, shared by the ranks; what the files say they hold."""
    for name, wanted in sorted(Index.read(path / NAME).files.items())[rank::ranks]:
        try:
            with (path / name).open("rb") as file:
                size, digest = (path / name).stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()
            if size != wanted.bytes or digest != wanted.sha256:
                raise ValueError(f"{path / name}: damaged: {size} bytes, sum {digest[:12]}…, not as its index says")
            with safe_open(path / name, "pt"):
                pass
        except OSError as error:
            raise ValueError(f"{path / name}: {error.strerror or error}") from error
        except SafetensorError as error:
            raise ValueError(f"{path / name}: no safetensors file ({error})") from error


def _check_names(path: Path, index: Index, mine: Sequence[Holding]) -> list[str]:
    for holding in mine:
        entry = index.tensors.get(holding.name)
        if entry is None:
            raise ValueError(f"{path}: of another model: it has no {holding.name}; name the model that it is of")
        if entry.shape != holding.place.shape:
            raise ValueError(
                f"{path}: of another model: its {holding.name} has shape {entry.shape}, not {holding.place.shape}; "
                "name the model that it is of"
            )
        wrong = [dtype for dtype in entry.keys.values() if not isinstance(getattr(torch, dtype, None), torch.dtype)]
        if WEIGHT not in entry.keys or wrong:
            raise ValueError(f"{path / NAME}: damaged at {holding.name}; use an earlier checkpoint")
    return [holding.name for holding in mine]


def _check_all_read(path: Path, index: Index, known: set[str]) -> None:
    if more := sorted(set(index.tensors) - known):
        raise ValueError(
            f"{path}: of another model: it has {more[0]}{f' and {len(more) - 1} more' if more[1:] else ''}, "
            "which this one has not; name the model that it is of"
        )
