"""The whole run several times over: medians, and how far the cycles lie apart. Needs no torch.

cycle 1:  1K 4K 16K …        what a size takes is the median of its cycles; their spread is the interquartile range,
cycle 2:  1K 4K 16K …        which also holds what drifts over minutes, not only what shakes within one block
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from statistics import median, quantiles
from typing import Any

from .report import Row


def iqr(values: Sequence[float]) -> float:
    """The interquartile range: the width of the middle half (quartiles between the two nearest values); 0 of one."""
    if len(values) < 2:
        return 0.0
    low, _, high = quantiles(values, n=4, method="inclusive")
    return high - low


def merged(cycles: Sequence[Sequence[Row]]) -> list[Row]:
    """One row for each place in the cycles, which have the same rows in the same order.

    Numbers are medians over the cycles that have them, ``wrong`` is the sum, ``iqr_us`` that of the cycles' times; all
    else is the first cycle's. A single cycle stays as it is.
    """
    if len(cycles) == 1:
        return list(cycles[0])
    return [_merged(rows) for rows in zip(*cycles, strict=True)]


def _merged(rows: Sequence[Row]) -> Row:
    changes: dict[str, Any] = {}
    for field in fields(Row):
        values = [value for row in rows if (value := getattr(row, field.name)) is not None]
        if field.name == "wrong":
            changes["wrong"] = sum(values) if values else None
        elif values and isinstance(values[0], float):
            changes[field.name] = median(values)
        elif values and isinstance(values[0], dict):
            changes[field.name] = {key: median(value[key] for value in values) for key in values[0]}
    changes["iqr_us"] = iqr([row.time_us for row in rows])
    return replace(rows[0], **changes)
