"""Pieces of earlier lessons: the learner's own if it has passed, else the library's."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .lesson import Lesson
from .manifest import COURSE


def finished(name: str) -> Callable[..., Any]:
    """The piece ``name`` (``reduce_scatter``, ``all_gather``, ``all_reduce``), a function of (rank, size, …).

    The learner's function stands for it once the lesson has passed, as long as its file is as it was then.

    Raises:
        ValueError: no lesson has such a piece.
    """
    lesson = next((lesson for lesson in COURSE if name in lesson.pieces), None)
    if lesson is None:
        known = [piece for lesson in COURSE for piece in lesson.pieces]
        raise ValueError(f"finished({name!r}): there is no such piece; take one of {', '.join(known)}")
    function, library = lesson.pieces[name]
    file = _file(lesson)
    if file is not None:
        from collectives.registry import attribute, load

        found: Callable[..., Any] = attribute(load(file), function, f"{file.name}:{function}")
        return found
    module, _, attribute_name = library.partition(":")
    theirs = getattr(importlib.import_module(module), attribute_name)
    program: Callable[..., Any] = getattr(theirs, "programs", (theirs,))[0]  # a plain function, as the learner's is
    return program


def _file(lesson: Lesson) -> Path | None:
    """The learner's file, if it is one that passed."""
    from .progress import Progress
    from .refusal import Refusal
    from .workspace import digest, find_folder

    folder = os.environ.get("LESSONS_FOLDER")
    place = Path(folder) if folder else find_folder(Path.cwd())
    file = place / f"{lesson.folder}.py"
    if not file.is_file():
        return None
    try:
        passed = Progress(place).passed(lesson.name)
    except Refusal:
        return None
    return file if passed and digest(file) == passed else None
