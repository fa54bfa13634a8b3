"""Figures of lessons, made by the library: never drawn by hand.

A figure has ``lines(say, width)`` for the terminal and ``html(say)`` for the page, in the language of ``say``. What
these need is imported when they draw, so that the manifest can name figures for nothing.
"""

from __future__ import annotations

from typing import TypeAlias

from .bars import Bars
from .operators import Operators
from .plot import Plot
from .run import Run
from .steps import Steps
from .sweep import Sweep
from .timetable import Timetable
from .waits import Waits

Figure: TypeAlias = Steps | Run | Sweep | Operators | Waits | Plot | Bars | Timetable

__all__ = ["Bars", "Figure", "Operators", "Plot", "Run", "Steps", "Sweep", "Timetable", "Waits"]
