"""Files that are either there as a whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A new name beside ``path`` to write to; it becomes ``path`` if all goes well, and is removed if not.

    The new name has the same suffix, for writers that go by it. What ``path`` links to is replaced, not the link; a
    device or a pipe is written to.
    """
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        with tempfile.TemporaryDirectory() as folder:
            fresh = Path(folder) / f"fresh{target.suffix}"
            yield fresh
            target.write_bytes(fresh.read_bytes())
        return
    fresh = target.with_name(f".{target.stem}.{secrets.token_hex(4)}{target.suffix}")
    try:
        yield fresh
        os.replace(fresh, target)
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)


def check_writable(option: str, path: str | os.PathLike[str]) -> None:
    """Refuse a place for a file before any work is done.

    Raises:
        ValueError: its folder is missing or cannot be written to, or it is a folder itself.
    """
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise ValueError(f"{option} {path}: folder {str(folder)!r} does not exist; make it first")
    if Path(path).is_dir():
        raise ValueError(f"{option} {path}: this is a folder; name a file in it")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{option} {path}: folder {str(folder)!r} cannot be written to; choose another")


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` to ``path``, replacing what was there in one step."""
    with replacing(path) as fresh:
        fresh.write_text(text, encoding="utf-8", newline="\n")
