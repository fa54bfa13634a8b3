"""Checkpoints in a folder: written beside, renamed when whole; so the newest with a proper name is always readable.

    runs/                                            while step 30 is being saved      then
    ├── step-00000010/  index.json  rank-*.safetensors    …                            (removed: two are kept)
    ├── step-00000020/                                    …                            step-00000020/
    └── .step-00000030.partial/                           files come, the index last   step-00000030/

A process may be killed at any moment: what is partial is never read, and goes when the next is saved.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from pathlib import Path

from .index import NAME

_WHOLE, _PARTIAL, _OLD = (
    re.compile(each) for each in (r"step-(\d{8,})", r"\.step-\d{8,}\.partial", r"\.(step-\d{8,})\.old")
)


class Folder:
    """Where one run keeps its checkpoints.

    Args:
        path: of the folder. keep: how many stay.

    Raises:
        ValueError: a keep below 1.
    """

    def __init__(self, path: str | os.PathLike[str], keep: int = 2) -> None:
        self.path, self.keep = Path(path), keep
        if keep < 1:
            raise ValueError(f"keep={keep}: keep at least 1 checkpoint")

    def prepare(self) -> None:
        """Make the folder if it is missing; one rank calls it.

        Raises:
            ValueError: a file, or a place that cannot be made or written to.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"{self.path}: no folder for checkpoints ({error.strerror}); name another") from error
        if not os.access(self.path, os.W_OK):
            raise ValueError(f"{self.path}: this folder cannot be written to; name another")
        _bring_back(self.path)

    def partial(self, step: int) -> Path:
        """Where the files of a step are written to."""
        return self.path / f".step-{step:08d}.partial"

    def begin(self, step: int) -> None:
        """Make that place, empty; what an interrupted save has left is removed."""
        for each in self.path.iterdir():
            if _PARTIAL.fullmatch(each.name):
                shutil.rmtree(each)
        self.partial(step).mkdir()

    def finish(self, step: int, index: str) -> Path:
        """All files are there: write the index, give the place its name, and remove the oldest.

        Raises:
            OSError: the disk is full, or alike; the checkpoints that were there are there still.
        """
        partial, whole = self.partial(step), self.path / f"step-{step:08d}"
        with (partial / NAME).open("w", encoding="utf-8", newline="\n") as file:
            file.write(index)
            file.flush()
            os.fsync(file.fileno())
        sync(partial)
        old = self.path / f".{whole.name}.old"
        if whole.exists():  # the same step again, after a resume from an earlier one
            whole.rename(old)
        partial.rename(whole)
        shutil.rmtree(old, ignore_errors=True)
        sync(self.path)
        for old in checkpoints(self.path)[: -self.keep]:
            shutil.rmtree(old, ignore_errors=True)
        return whole

    def give_up(self, step: int) -> None:
        """Remove what was written of a step."""
        shutil.rmtree(self.partial(step), ignore_errors=True)


def checkpoints(path: str | os.PathLike[str]) -> list[Path]:
    """The whole checkpoints in a folder, oldest first."""
    try:
        found = [(int(match[1]), each) for each in Path(path).iterdir() if (match := _WHOLE.fullmatch(each.name))]
    except OSError:
        return []
    return [each for _, each in sorted(found)]


def find(path: str | os.PathLike[str]) -> Path:
    """A checkpoint by its own folder, or the newest in a run's.

    Raises:
        ValueError: there is none.
    """
    if (Path(path) / NAME).is_file():
        return Path(path)
    _bring_back(Path(path))
    if found := checkpoints(path):
        return found[-1]
    raise ValueError(f"{path}: no checkpoint here; name a folder that a run has saved to")


def _bring_back(path: Path) -> None:
    """What a save of the same step had put aside when it was killed gets its name again."""
    for each in path.iterdir() if path.is_dir() else ():
        if match := _OLD.fullmatch(each.name):
            if (path / match[1]).exists():
                shutil.rmtree(each, ignore_errors=True)
            else:
                each.rename(path / match[1])


def sync(path: Path) -> None:
    """The names in a folder reach the disk, where a system has such a thing."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
