"""Files that are either there as a whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A new name beside ``path`` to write to; it becomes ``path`` if all goes well, and is removed if not.

    The new name has the same suffix, for writers that go by it.
    """
    target = Path(path)
    fresh = target.with_name(f".{target.stem}.{secrets.token_hex(4)}{target.suffix}")
    try:
        yield fresh
        os.replace(fresh, target)
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` to ``path``, replacing what was there in one step."""
    with replacing(path) as fresh:
        fresh.write_text(text, encoding="utf-8", newline="\n")
