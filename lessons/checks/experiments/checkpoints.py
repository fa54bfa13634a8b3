"""Lesson 28 on real ranks: files that are whole once they have their name, and runs that go on as if never stopped."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ..experiment import Example, Experiment

LATE = 0.4  # seconds that the last rank waits for an index that comes too early
KEYS = ("weight", "momentum")


def _drawn(elements: int, seed: int) -> Tensor:
    return torch.randn(elements, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Witness:
    """Watches ``os.fsync``, ``os.rename`` and ``os.replace`` from now on, until ``leave``."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int, int]] = []  # what, the file's number on disk, its bytes at that moment
        self.renamed: list[str] = []
        self._before = os.fsync, os.rename, os.replace
        os.fsync, os.rename, os.replace = self.fsync, self.rename, self.replace  # type: ignore[assignment]

    def fsync(self, file: Any) -> None:
        self._before[0](file)
        found = os.fstat(file if isinstance(file, int) else file.fileno())
        self.events.append(("synced", found.st_ino, found.st_size))

    def rename(self, source: Any, target: Any, **options: Any) -> None:
        self._move(self._before[1], source, target, options)

    def replace(self, source: Any, target: Any, **options: Any) -> None:
        self._move(self._before[2], source, target, options)

    def _move(self, move: Callable[..., None], source: Any, target: Any, options: dict[str, Any]) -> None:
        found = os.stat(source)
        move(source, target, **options)
        self.events.append(("renamed", found.st_ino, found.st_size))
        self.renamed.append(Path(target).name)

    @staticmethod
    def leave() -> Witness:
        """The one that watches; all is as before."""
        found: Witness = os.fsync.__self__  # type: ignore[attr-defined]
        os.fsync, os.rename, os.replace = found._before
        return found

    def verdict(self, path: Path) -> str:
        """How a file of this process came to its name."""
        found = path.stat()
        mine = [(what, size) for what, number, size in self.events if number == found.st_ino]
        kinds = [what for what, _ in mine]
        if "renamed" not in kinds:
            return "partial_name"
        if "synced" not in kinds:
            return "not_synced"
        if kinds.index("synced") > kinds.index("renamed"):
            return "synced_late"
        return "safe" if dict(mine)["synced"] == found.st_size else "not_flushed"


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


# hand_over: a run that stops, and another one that goes on


@dataclass
class Run:
    """A training run of one rank, with all that its next step depends on."""

    rows: Tensor
    weight: Tensor
    optimizer: torch.optim.Optimizer
    generator: torch.Generator
    position: int = 0
    step: int = 0

    @classmethod
    def begin(cls, elements: int, rank: int) -> Run:
        weight = _drawn(elements, 1)
        rows = torch.stack([_drawn(elements, 60 + 10 * rank + number) for number in range(7)])
        optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
        return cls(rows, weight, optimizer, torch.Generator().manual_seed(rank))

    def train(self, steps: int) -> None:
        """Towards the rows, one a step, through a dropout, with a rate that falls."""
        for _ in range(steps):
            row = self.rows[self.position % len(self.rows)]
            kept = torch.rand(self.weight.shape, generator=self.generator, dtype=torch.float64) < 0.5
            self.weight.grad = (self.weight - row) * kept
            self.optimizer.param_groups[0]["lr"] = 0.1 / (1 + self.step)
            self.optimizer.step()
            self.position, self.step = self.position + 1, self.step + 1


def _over_arguments(example: Example, rank: int, size: int) -> tuple[Run, Run, Path]:
    elements, before = example
    old, new = Run.begin(elements, rank), Run.begin(elements, rank)
    old.train(before)
    return old, new, Path(tempfile.mkdtemp(prefix="lesson-")) / "run.pt"


def _went_on(arguments: tuple[Run, Run, Path], value: Any) -> Tensor:
    _, new, path = arguments
    shutil.rmtree(path.parent)
    new.train(_AFTER)
    return new.weight


_AFTER = 3


def _going_on(
    example: Example, size: int, without: Sequence[str] = (), stream: Callable[[int], int] = lambda rank: rank
) -> list[Tensor]:
    """without: what of a run does not come along. stream: whose random numbers a rank goes on with."""
    elements, before = example
    olds = [Run.begin(elements, rank) for rank in range(size)]
    for old in olds:
        old.train(before)
    found = []
    for rank, old in enumerate(olds):
        new = Run.begin(elements, rank)
        if "weight" not in without:
            new.weight.copy_(old.weight)
        if "optimizer" not in without:
            new.optimizer.load_state_dict(old.optimizer.state_dict())
        if "random" not in without:
            new.generator.set_state(olds[stream(rank)].generator.get_state())
        if "position" not in without:
            new.position = old.position
        if "step" not in without:
            new.step = old.step
        found.append(new)
    for run in found:
        run.train(_AFTER)
    return [run.weight for run in found]


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
    "hand_over": Experiment(
        examples=lambda size: ((5, 4), (3, 9)),
        arguments=_over_arguments,
        optimizes=True,
        outcome=_went_on,
        expected=_going_on,
        mistakes={
            "zero.hand_over.random": partial(_going_on, without=("random",)),
            "zero.hand_over.optimizer": partial(_going_on, without=("optimizer",)),
            "zero.hand_over.position": partial(_going_on, without=("position",)),
            "zero.hand_over.step": partial(_going_on, without=("step",)),
            "zero.hand_over.weight": partial(_going_on, without=("weight",)),
            "zero.hand_over.usual": partial(_going_on, without=("random", "position", "step")),
            "zero.hand_over.weight_only": partial(_going_on, without=("optimizer", "random", "position", "step")),
            "zero.hand_over.random_and_position": partial(_going_on, without=("random", "position")),
            "zero.hand_over.nothing": partial(_going_on, without=("weight", "optimizer", "random", "position", "step")),
            "zero.hand_over.one_for_all": partial(_going_on, stream=lambda rank: 0),
        },
        tolerance=0.0,
    ),
}
