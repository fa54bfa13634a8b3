"""Lessons 22 to 24: layers one behind the other on ranks, and the bubble between them."""

from __future__ import annotations

from ..lesson import Lesson

PIPELINES: tuple[Lesson, ...] = ()
