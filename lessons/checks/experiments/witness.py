"""What happens to files on their way to their names, as one process sees it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


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
