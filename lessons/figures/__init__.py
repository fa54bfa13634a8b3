"""Figures of lessons, made by the library: never drawn by hand.

A figure has ``lines(say, width)`` for the terminal and ``html(say)`` for the page, in the language of ``say``. What
these need is imported when they draw, so that the manifest can name figures for nothing.
"""

from __future__ import annotations

from typing import TypeAlias

from .backward import Backward
from .blocks import Blocks, Matrix
from .layer_times import LayerTimes
from .operators import Operators
from .pipelines import Pipelines
from .plots import Plots
from .replicas import Replicas
from .run import Run
from .stacks import Stacks
from .steps import Steps
from .sweep import Sweep
from .waits import Waits

Figure: TypeAlias = (
    Steps | Run | Sweep | Operators | Waits | Replicas | Backward | Blocks | LayerTimes | Pipelines | Stacks | Plots
)

__all__ = [
    "Backward",
    "Blocks",
    "Figure",
    "LayerTimes",
    "Matrix",
    "Operators",
    "Pipelines",
    "Plots",
    "Replicas",
    "Run",
    "Stacks",
    "Steps",
    "Sweep",
    "Waits",
]
