"""Save: every rank writes what it holds and no rank before it, then the first rank makes the whole known.

rank 0   begin ─┬─ write rank-00000 ─┬─ index, rename ─┬─▶        a rank that cannot write tells the others, and
rank 1          ├─ write rank-00001 ─┤                 ├─▶        all raise the same: nobody waits for it, and
rank 2          └─ write rank-00002 ─┘                 └─▶        nothing that was there is touched
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import save_file

from .folder import Folder
from .holding import Holding
from .index import Entry, File, Index
from .together import together

Written = tuple[str, File, dict[str, Entry]]


def save(folder: Folder, step: int, holdings: Iterable[Holding], state: dict[str, Any]) -> Path:
    """Write a checkpoint; all ranks call it, and share the file system.

    Args:
        step: how many steps have been done. state: what the ranks share, of JSON's types; the first rank's counts.

    Returns:
        Its folder.

    Raises:
        OSError: a rank could not write; all ranks raise it, and the checkpoints of before are as they were.
        ValueError: states that cannot be saved, or holdings that are not, together, each element once.
    """
    mine = [holding for holding in holdings if holding.first]
    rank, consequence = dist.get_rank(), f"step {step} was not saved, what was saved before is as it was"
    first = rank == 0
    try:
        together(partial(folder.begin, step) if first else None, consequence)
        written = together(partial(_write, folder.partial(step), rank, mine), consequence)
        finish = partial(_finish, folder, step, state, written)
        return Path(together(finish if first else None, consequence)[0])
    except BaseException:
        if first:
            folder.give_up(step)
        raise


def _write(place: Path, rank: int, mine: Sequence[Holding]) -> Written:
    """This rank's file, and what is in it."""
    name = f"rank-{rank:05d}.safetensors"
    tensors: dict[str, torch.Tensor] = {}
    entries: dict[str, Entry] = {}
    for holding in mine:
        found = holding.tensors()
        for key, value in found.items():
            tensors[f"{holding.name}/{key}"] = value.flatten().cpu().contiguous()
        keys = {key: str(value.dtype).removeprefix("torch.") for key, value in found.items()}
        entries[holding.name] = Entry(holding.place.shape, keys, holding.numbers(), [(name, holding.place)])
    try:
        save_file(tensors, place / name)
        with (place / name).open("rb+") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            os.fsync(file.fileno())
    except OSError:
        raise
    except Exception as error:  # safetensors has an error of its own for a full disk
        raise OSError(f"{place / name}: {error}") from error
    return name, File((place / name).stat().st_size, digest), entries


def _finish(folder: Folder, step: int, state: dict[str, Any], written: Sequence[Written]) -> Path:
    tensors: dict[str, Entry] = {}
    for _, _, entries in written:
        for name, entry in entries.items():
            tensors[name] = _merged(name, tensors[name], entry) if name in tensors else entry
    for name, entry in tensors.items():
        check_whole(name, entry)
    index = Index(state, {name: file for name, file, _ in written}, tensors)
    return folder.finish(step, index.to_json())


def _merged(name: str, one: Entry, other: Entry) -> Entry:
    both = one.numbers.keys() & other.numbers.keys()
    if one.shape != other.shape or any(one.numbers[key] != other.numbers[key] for key in both):
        raise ValueError(f"{name}: ranks hold pieces of different tensors, or of different steps")
    return Entry(one.shape, one.keys | other.keys, one.numbers | other.numbers, one.parts + other.parts)


def check_whole(name: str, entry: Entry) -> None:
    """Raise ValueError unless the parts are, together, each element once."""
    seen = torch.zeros(entry.shape, dtype=torch.uint8)
    for _, place in entry.parts:
        place.count(seen)
    if not bool((seen == 1).all()):
        raise ValueError(f"{name}: the ranks hold {int((seen == 0).sum())} of its elements never, and others twice")
