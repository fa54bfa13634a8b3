"""Lesson 28 on real ranks: files that are whole once they have their name, written by some ranks, read by others."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ..experiment import Example, Experiment
from .resumed import RESUMED
from .witness import Witness

LATE = 0.4  # seconds that the last rank waits for an index that comes too early
KEYS = ("weight", "momentum")


def _drawn(elements: int, seed: int) -> Tensor:
    return torch.randn(elements, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# write_safely: one file


def _write_arguments(example: Example, rank: int, size: int) -> tuple[Path, bytes]:
    before, content = example
    path = Path(tempfile.mkdtemp(prefix="lesson-")) / "index.json"
    if before:
        path.write_bytes(before.encode())
    Witness()
    return path, content.encode()


def _written(arguments: tuple[Path, bytes], value: Any) -> str:
    (path, content), witness = arguments, Witness.leave()
    try:
        if not path.is_file() or path.read_bytes() != content:
            return "content"
        verdict = witness.verdict(path)
        return "left" if verdict == "safe" and len(list(path.parent.iterdir())) > 1 else verdict
    finally:
        shutil.rmtree(path.parent)


def _all(value: Any) -> Callable[[Example, int], list[Any]]:
    return lambda example, size: [value] * size


# save_sharded: a file a rank, then the index


def _length(elements: int, ranks: int) -> int:
    return -(-elements // ranks)


def _cut(elements: int, rank: int, ranks: int, length: int | None = None) -> dict[str, Tensor]:
    """A rank's part of all that there is."""
    length = _length(elements, ranks) if length is None else length
    return {key: _drawn(elements, seed)[rank * length :][:length].clone() for seed, key in enumerate(KEYS, 7)}


def _save_arguments(elements: Example, rank: int, size: int) -> tuple[Path, dict[str, Tensor], int]:
    folder = Path(tempfile.gettempdir()) / f"lesson-{os.getppid()}-{elements}"  # the ranks have one parent
    if rank == 0:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    dist.barrier()
    end = time.monotonic() + LATE * (rank == size - 1)
    while time.monotonic() < end and not (folder / "index.json").exists():
        time.sleep(0.01)
    Witness()
    return folder, _cut(elements, rank, size), elements


def _saved(arguments: tuple[Path, dict[str, Tensor], int], value: Any) -> dict[str, Any]:
    folder, rank, size = arguments[0], dist.get_rank(), dist.get_world_size()
    there, witness = (folder / "index.json").is_file(), Witness.leave()
    dist.barrier()
    found = {
        "index when the call returned": there,
        "own index": "index.json" in witness.renamed,
        "order": _order(folder),
        "own file": _own(folder / f"rank-{rank}.pt", witness),
        "part": _part(folder / f"rank-{rank}.pt"),
        "index": _read(folder / "index.json"),
    }
    dist.barrier()
    if rank == size - 1:
        shutil.rmtree(folder)
    return found


def _order(folder: Path) -> str:
    """Whether the index came last."""
    index = folder / "index.json"
    if not index.is_file():
        return "no_index"
    times = [path.stat().st_mtime_ns for path in folder.glob("rank-*.pt")]
    return "index last" if all(one <= index.stat().st_mtime_ns for one in times) else "index first"


def _own(path: Path, witness: Witness) -> str:
    return witness.verdict(path) if path.is_file() else "missing"


def _part(path: Path) -> Any:
    """What a rank's file holds; None if there is none that can be read."""
    try:
        return torch.load(path)
    except Exception:  # a learner may have written anything
        return None


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None


def _saving(
    elements: Example,
    size: int,
    index: bool = True,
    order: str = "index last",
    there: Callable[[int], bool] = lambda rank: True,
    writes: Callable[[int], bool] = lambda rank: rank == 0,
    file: str = "safe",
    part: bool = True,
) -> list[dict[str, Any]]:
    """What the ranks find; every argument is a way to go wrong."""
    content = {"elements": elements, "files": [f"rank-{rank}.pt" for rank in range(size)]}
    return [
        {
            "index when the call returned": there(rank),
            "own index": writes(rank),
            "order": order,
            "own file": file,
            "part": _cut(elements, rank, size) if part else None,
            "index": content if index else None,
        }
        for rank in range(size)
    ]


# load_resharded: what n ranks have saved, on m ranks


def _load_arguments(example: Example, rank: int, size: int) -> tuple[Path]:
    elements, ranks = example
    folder = Path(tempfile.mkdtemp(prefix="lesson-"))
    names = [f"rank-{number}.pt" for number in range(ranks)]
    for number, name in enumerate(names):
        torch.save(_cut(elements, number, ranks), folder / name)
    (folder / "index.json").write_text(json.dumps({"elements": elements, "files": names}), "utf-8")
    return (folder,)


def _loaded(arguments: tuple[Path], value: Any) -> Any:
    shutil.rmtree(arguments[0])
    return value


def _loading(
    example: Example,
    size: int,
    length: Callable[[int, int], int] = _length,
    place: Callable[[int], int] = lambda rank: rank,
) -> list[dict[str, Tensor]]:
    return [_cut(example[0], place(rank), size, length(example[0], size)) for rank in range(size)]


def _by_name(example: Example, size: int) -> list[dict[str, Tensor]]:
    elements, ranks = example
    parts = [_cut(elements, number, ranks) for number in sorted(range(ranks), key=str)]
    length = _length(elements, size)
    whole = {key: torch.cat([part[key] for part in parts]) for key in KEYS}
    return [{key: one[rank * length :][:length] for key, one in whole.items()} for rank in range(size)]


def _own_files(example: Example, size: int, keys: Sequence[str] = KEYS) -> list[dict[str, Tensor]]:
    elements, ranks = example
    mine = [_cut(elements, rank, ranks) for rank in range(size)]
    return [
        {key: (mine[rank] if key in keys else right)[key] for key in KEYS}
        for rank, right in enumerate(_loading(example, size))
    ]


def _with_zeros(example: Example, size: int) -> list[dict[str, Tensor]]:
    length = _length(example[0], size)
    return [
        {key: torch.cat([one, one.new_zeros(length - one.numel())]) for key, one in part.items()}
        for part in _loading(example, size)
    ]


CHECKPOINTS: Mapping[str, Experiment] = {
    "write_safely": Experiment(
        examples=lambda size: (("", '{"step": 20}'), ('{"step": 10}', '{"step": 20, "files": []}')),
        arguments=_write_arguments,
        outcome=_written,
        expected=_all("safe"),
        mistakes={
            "zero.write_safely.partial_name": _all("partial_name"),
            "zero.write_safely.not_synced": _all("not_synced"),
            "zero.write_safely.synced_late": _all("synced_late"),
            "zero.write_safely.not_flushed": _all("not_flushed"),
            "zero.write_safely.left": _all("left"),
            "zero.write_safely.content": _all("content"),
        },
    ),
    "save_sharded": Experiment(
        examples=lambda size: (11,),
        arguments=_save_arguments,
        outcome=_saved,
        expected=_saving,
        mistakes={
            "zero.save_sharded.index_first": partial(_saving, order="index first"),
            "zero.save_sharded.no_index": partial(
                _saving, index=False, order="no_index", there=lambda rank: False, writes=lambda rank: False
            ),
            "zero.save_sharded.everybody": partial(_saving, writes=lambda rank: True),
            "zero.save_sharded.too_soon": partial(_saving, there=lambda rank: rank == 0),
            "zero.save_sharded.not_safe": partial(_saving, file="partial_name", writes=lambda rank: False),
            "zero.save_sharded.file_not_safe": partial(_saving, file="partial_name"),
            "zero.save_sharded.no_file": partial(_saving, file="missing", part=False),
        },
    ),
    "load_resharded": Experiment(
        examples=lambda size: ((41, 5), (23, 12), (16, 4)),
        arguments=_load_arguments,
        outcome=_loaded,
        expected=_loading,
        mistakes={
            "zero.load_resharded.by_name": _by_name,
            "zero.load_resharded.momentum": partial(_own_files, keys=("momentum",)),
            "zero.load_resharded.own_file": _own_files,
            "zero.load_resharded.tail": partial(_loading, length=lambda elements, size: elements // size),
            "zero.load_resharded.padded": _with_zeros,
            "zero.load_resharded.same": partial(_loading, place=lambda rank: 0),
        },
    ),
    **RESUMED,
}
