"""The folder of a site: replaced as a whole, and never in the place of something that is not ours."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

from ..refusal import Refusal

MARK = "site.json"  # names the files of a site: by it we know ours
_MAKER = "python -m lessons site"


def check_folder(target: Path) -> None:
    """Refuse a folder before any work is done.

    Raises:
        Refusal: it is no folder, holds what is not of an earlier site, or cannot be replaced.
    """
    where = target.resolve()
    if where.exists() and not where.is_dir():
        raise Refusal("site.no_folder", folder=str(target))
    if Path.cwd().resolve().is_relative_to(where):
        raise Refusal("site.inside", folder=str(target))
    if not where.parent.is_dir() or not os.access(where.parent, os.W_OK):
        raise Refusal("site.no_parent", folder=str(target), parent=str(where.parent))
    try:
        strangers = sorted(one.name for one in where.iterdir()) if where.exists() else []
    except OSError as error:
        raise Refusal("site.failed", folder=str(target), error=error.strerror or str(error)) from None
    if MARK in strangers:
        ours = _files_of(where)
        strangers = [name for name in strangers if name not in ours]
    if strangers:
        raise Refusal("site.not_ours", folder=str(target), files=[*strangers[:3], *["…"] * (len(strangers) > 3)])


def write_folder(target: Path, files: Mapping[str, str]) -> None:
    """All of ``files`` (name → text), in the place of what was there: a whole site, the new one or the old one.

    Raises:
        Refusal: see ``check_folder``, or the disk says no.
    """
    check_folder(target)
    where = target.resolve()
    fresh, old = (where.with_name(f".{where.name}.{word}-{secrets.token_hex(4)}") for word in ("new", "old"))
    mark = json.dumps({"made_by": _MAKER, "files": sorted([*files, MARK])}, indent=1, ensure_ascii=False)
    try:
        fresh.mkdir()
        for name, text in {**files, MARK: f"{mark}\n"}.items():
            (fresh / name).write_text(text, encoding="utf-8", newline="\n")
        if where.exists():
            where.rename(old)
            try:
                fresh.rename(where)
            except BaseException:
                old.rename(where)
                raise
        else:
            fresh.rename(where)
    except OSError as error:
        raise Refusal("site.failed", folder=str(target), error=error.strerror or str(error)) from None
    finally:
        for left in (fresh, old):
            with contextlib.suppress(OSError):
                shutil.rmtree(left)


def _files_of(folder: Path) -> list[str]:
    """What an earlier site consists of; nothing if the mark is not ours."""
    try:
        found = json.loads((folder / MARK).read_text("utf-8"))
        return [str(name) for name in found["files"]] if found["made_by"] == _MAKER else []
    except (OSError, ValueError, KeyError, TypeError):
        return []
