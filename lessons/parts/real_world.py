"""Lessons 28 to 32: what happens to a run, and the whole of it once more."""

from __future__ import annotations

from ..lesson import Lesson

REAL_WORLD: tuple[Lesson, ...] = ()
