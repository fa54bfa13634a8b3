"""Numbers over numbers, as curves: what a lesson's facts have computed or measured."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

    from ..catalogue import Catalogue

Series = tuple[Sequence[float], Mapping[str, Sequence[float]]]  # the axis, and what is drawn over it, by name
_LEFT, _TOP, _WIDTH, _HEIGHT = 84.0, 62.0, 540.0, 280.0
_ROWS = 9  # of a table in the terminal


@dataclass(frozen=True)
class Plot:
    """Curves.

    source: ``module:function``, which gives a ``Series``. x, y: ids of what the axes are. names: ids of the curves, in
    the order of the source. unit: of y: ``number``, ``bytes`` or ``time``. log: whether y is logarithmic.
    """

    source: str
    x: str
    y: str
    names: tuple[str, ...]
    unit: str = "number"
    log: bool = False

    def lines(self, say: Catalogue, width: int) -> list[Text]:
        from rich.text import Text

        from ..text import table, wrap

        axis, series = self._series()
        heads = [Text(say(id), "bold") for id in (self.x, *self.names)]
        rows = [heads]
        for at in _spread(len(axis)):
            values = [row[at] for row in series.values()]
            rows.append([Text(f"{axis[at]:g}"), *(Text(self._shown(value)) for value in values)])
        return [*table(rows, [True] * len(heads), width), Text(), *wrap(Text(say(self.y), "dim"), width)]

    def html(self, say: Catalogue) -> str:
        from sim.draw.shapes import Line, Picture, Shape, text_width
        from sim.draw.shapes import Text as Label

        from .curves import COLOURS, INK, MUTED, RULE, apart, curve
        from .markup import data_table, inline

        axis, series = self._series()
        low, high = self._range([value for row in series.values() for value in row])
        names = [say(id) for id in self.names]

        def place(value: float) -> float:
            share = math.log(value / low, high / low) if self.log else (value - low) / (high - low)
            return _TOP + _HEIGHT * (1 - share)

        def across(value: float) -> float:
            return _LEFT + _WIDTH * (value - axis[0]) / (axis[-1] - axis[0])

        shapes: list[Shape] = [Label(20, 26, say(self.y), 15, INK, bold=True)]
        for tick in self._ticks(low, high):
            shapes.append(Line(((_LEFT, place(tick)), (_LEFT + _WIDTH, place(tick))), RULE))
            shapes.append(Label(_LEFT - 8, place(tick), self._shown(tick), 12, MUTED, "end"))
        for tick in _round(axis[0], axis[-1]):
            shapes.append(Label(across(tick), _TOP + _HEIGHT + 18, f"{tick:g}", 12, MUTED, "middle"))
        shapes.append(Label(_LEFT + _WIDTH / 2, _TOP + _HEIGHT + 40, say(self.x), 12, MUTED, "middle"))
        marked = _spread(len(axis), 17)
        for number, row in enumerate(series.values()):
            shapes += curve([(across(axis[at]), place(row[at])) for at in marked], number)
        ends = {name: place(row[-1]) for name, row in zip(names, series.values(), strict=True)}
        for name, at in apart(ends):
            colour = COLOURS[names.index(name) % len(COLOURS)]
            shapes.append(Label(_LEFT + _WIDTH + 14, at, name, 13, colour, bold=True))
        width = _LEFT + _WIDTH + 30 + max(text_width(name, 13) for name in names)
        rows = [
            [f"{axis[at]:g}", *(self._shown(row[at]) for row in series.values())] for at in _spread(len(axis), _ROWS)
        ]
        told = "; ".join(f"{name}: {', '.join(row[1 + i] for row in rows)}" for i, name in enumerate(names))
        picture = Picture(width, _TOP + _HEIGHT + 56, say(self.y), told, shapes)
        return inline(picture) + data_table([say(self.x), *names], rows, say("page.numbers"))

    def _series(self) -> Series:
        module, _, function = self.source.partition(":")
        found: Series = getattr(importlib.import_module(module), function)()
        return found

    def _range(self, values: Sequence[float]) -> tuple[float, float]:
        if self.log:
            return 10.0 ** math.floor(math.log10(min(values))), 10.0 ** math.ceil(math.log10(max(values)))
        unit = self._unit(max(values))
        apart = _apart(0.0, max(values) / unit) * unit
        return 0.0, apart * math.ceil(max(values) / apart - 1e-9)

    def _ticks(self, low: float, high: float) -> list[float]:
        if not self.log:
            unit = self._unit(high)
            return [tick * unit for tick in _round(low / unit, high / unit)]
        return [10.0**power for power in range(round(math.log10(low)), round(math.log10(high)) + 1)]

    def _unit(self, largest: float) -> float:
        """In which ticks are round numbers."""
        return 1024.0 ** int(math.log(largest, 1024)) if self.unit == "bytes" and largest >= 1 else 1.0

    def _shown(self, value: float) -> str:
        from sim.units import show_bytes, show_time

        show = {"bytes": show_bytes, "time": show_time}.get(self.unit)
        return show(value) if show else f"{value:.3g}"


def _spread(count: int, most: int = _ROWS) -> list[int]:
    """At most so many places out of ``count``, evenly, with both ends."""
    most = min(count, most)
    return [round(at * (count - 1) / max(1, most - 1)) for at in range(most)]


def _round(low: float, high: float) -> list[float]:
    """Round numbers from ``low`` to ``high``."""
    apart = _apart(low, high)
    return [apart * at for at in range(math.ceil(low / apart - 1e-9), math.floor(high / apart + 1e-9) + 1)]


def _apart(low: float, high: float) -> float:
    """How far round numbers between these should be from each other."""
    rough = (high - low) / 6
    unit = 10.0 ** math.floor(math.log10(rough))
    return next(unit * many for many in (1, 2, 5, 10) if unit * many >= rough)
