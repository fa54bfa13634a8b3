"""Figures of lessons, made by the library: never drawn by hand.

A figure has ``lines(say, width)`` for the terminal and ``html(say)`` for the page, in the language of ``say``. What
these need is imported when they draw, so that the manifest can name figures for nothing.
"""

from __future__ import annotations

from typing import TypeAlias

from .gathered import Gathered
from .operators import Operators
from .reshard import Reshard
from .run import Run
from .shards import Shards
from .steps import Steps
from .sweep import Sweep
from .waits import Waits

Figure: TypeAlias = Steps | Run | Sweep | Operators | Waits | Shards | Gathered | Reshard

__all__ = ["Figure", "Gathered", "Operators", "Reshard", "Run", "Shards", "Steps", "Sweep", "Waits"]
