"""Lessons 17 to 21: ZeRO, and layers that are split over ranks."""

from __future__ import annotations

from ..lesson import Lesson

SHARDING: tuple[Lesson, ...] = ()
