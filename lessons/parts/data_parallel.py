"""Lessons 8 to 10: replicas of a model, each with rows of the batch, and the exchange of their gradients."""

from __future__ import annotations

from ..lesson import Lesson

DATA_PARALLEL: tuple[Lesson, ...] = ()
