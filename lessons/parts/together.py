"""Lessons 25 to 27: several parallelisms at once, and which of them to choose."""

from __future__ import annotations

from ..lesson import Lesson

TOGETHER: tuple[Lesson, ...] = ()
