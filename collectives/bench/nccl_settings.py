"""What NCCL's own log says that it has taken from the environment. Needs no torch."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from ..surroundings import surroundings

_SET = re.compile(r"(NCCL_ALGO|NCCL_PROTO) set by environment to (\S+)")


@contextlib.contextmanager
def nccl_log() -> Iterator[None]:
    """Have NCCL write what it takes from the environment to a file, one a process; not where the user logs already.

    To be entered before NCCL is used first, in a process or in the parent of its forks.
    """
    if "NCCL_DEBUG" in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="nccl-log-") as folder:
        file = str(Path(folder) / "%p.log")
        with surroundings({"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "ENV", "NCCL_DEBUG_FILE": file}):
            yield


class Evidence:
    """What NCCL logs in this process from here on."""

    def __init__(self) -> None:
        self._file = Path(os.environ.get("NCCL_DEBUG_FILE", "").replace("%p", str(os.getpid())))
        self._seen = 0
        self.forget()

    def forget(self) -> None:
        """Nothing that is there by now counts."""
        self._seen = len(self._read())

    def confirms(self, forced: Mapping[str, str]) -> bool:
        """Whether NCCL says that it took these settings."""
        said = dict(_SET.findall(self._read()[self._seen :]))
        return all(said.get(name, "").lower() == value.lower() for name, value in forced.items())

    def _read(self) -> str:
        try:
            return self._file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
