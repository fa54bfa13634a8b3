"""Figures of lessons, made by the library: never drawn by hand.

A figure has ``lines(say, width)`` for the terminal and ``html(say)`` for the page, in the language of ``say``. What
these need is imported when they draw, so that the manifest can name figures for nothing.
"""

from __future__ import annotations

from typing import TypeAlias

from .backward import Backward
from .bars import Bars
from .blocks import Blocks, Matrix
from .flights import Flights
from .gathered import Gathered
from .layer_times import LayerTimes
from .operators import Operators
from .pipelines import Pipelines
from .plot import Plot
from .replicas import Replicas
from .reshard import Reshard
from .run import Run
from .seats import Seats
from .shards import Shards
from .stacks import Stacks
from .steps import Steps
from .sweep import Sweep
from .timetable import Timetable
from .waits import Waits
from .winners import Winners

Figure: TypeAlias = (
    Steps
    | Run
    | Sweep
    | Operators
    | Waits
    | Blocks
    | LayerTimes
    | Pipelines
    | Stacks
    | Seats
    | Winners
    | Flights
    | Replicas
    | Backward
    | Plot
    | Bars
    | Timetable
    | Shards
    | Gathered
    | Reshard
)

__all__ = [
    "Backward",
    "Bars",
    "Blocks",
    "Figure",
    "Flights",
    "Gathered",
    "LayerTimes",
    "Matrix",
    "Operators",
    "Pipelines",
    "Plot",
    "Replicas",
    "Reshard",
    "Run",
    "Seats",
    "Shards",
    "Stacks",
    "Steps",
    "Sweep",
    "Timetable",
    "Waits",
    "Winners",
]
