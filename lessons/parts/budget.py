"""Lessons 11 to 16: memory, FLOPs and time of a training run, and what spares them."""

from __future__ import annotations

from ..lesson import Lesson

BUDGET: tuple[Lesson, ...] = ()
