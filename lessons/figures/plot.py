"""Numbers over numbers, as curves: what a lesson's facts have computed or measured; in the terminal as a table."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.text import Text

    from ..catalogue import Catalogue
    from .axis import Show


@dataclass(frozen=True)
class Data:
    """x: where; curves: name in ``plot.curve`` → a number at each x; points: name in ``plot.point`` → (x, y)."""

    x: Sequence[float]
    curves: Mapping[str, Sequence[float]]
    points: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def nearest(self, at: float, value: float) -> int:
        """The number of the curve that a point lies on, or next to."""
        after = min(max(bisect_left(self.x, at), 1), len(self.x) - 1)
        share = (at - self.x[after - 1]) / (self.x[after] - self.x[after - 1])
        rows = list(self.curves.values())
        far = [abs(row[after - 1] + share * (row[after] - row[after - 1]) - value) for row in rows]
        return far.index(min(far))


@dataclass(frozen=True)
class Plot:
    """title: of ``plot.title``; source: ``module:function`` that returns :class:`Data`; x, y: of ``plot.axis``, what
    the axes are, and so how their numbers are written; log: which of the axes are logarithmic."""

    title: str
    source: str
    x: str
    y: str
    log: Literal["xy", "y", ""] = "xy"

    def lines(self, say: Catalogue, width: int) -> list[Text]:
        from rich.text import Text

        from ..text import table, wrap
        from .curves import spread

        data, show_x, show_y = self.data(), _show(self.x), _show(self.y)
        rows = [[Text(head, "bold") for head in (say(f"plot.axis.{self.x}"), *self._named(data, say))]]
        rows += [
            [Text(show_x(data.x[at])), *(Text(show_y(row[at])) for row in data.curves.values())]
            for at in spread(len(data.x))
        ]
        lines = [*table(rows, [True] * len(rows[0]), width), Text()]
        for name, (at, value) in data.points.items():
            lines += wrap(Text(f"{say(f'plot.point.{name}')}: {show_x(at)} → {show_y(value)}"), width)
        return [*lines, *wrap(Text(say(f"plot.axis.{self.y}"), "dim"), width)]

    def html(self, say: Catalogue) -> str:
        from html import escape

        from .axis import across, upwards
        from .curves import curves, spread
        from .markup import data_table, inline

        data, show_x, show_y = self.data(), _show(self.x), _show(self.y)
        named, names = self._named(data, say), [say(f"plot.axis.{axis}") for axis in (self.x, self.y)]
        points = {say(f"plot.point.{name}"): at for name, at in data.points.items()}
        values = [*(value for row in named.values() for value in row), *(value for _, value in points.values())]
        axes = (
            across(data.x, show_x, "x" in self.log, names[0]),
            upwards(values, show_y, "y" in self.log, names[1], _unit(self.y, max(values))),
        )
        picture = curves(data.x, named, say(f"plot.title.{self.title}"), axes, points)
        rows = [[show_x(data.x[at]), *(show_y(row[at]) for row in named.values())] for at in spread(len(data.x))]
        for name, (at, value) in points.items():
            row = [""] * len(named)
            row[data.nearest(at, value)] = show_y(value)
            rows.append([f"{name}: {show_x(at)}", *row])
        note = f'<p class="note">{escape(say(f"plot.log.{self.log}"))}</p>' if self.log else ""
        return inline(picture) + note + data_table([names[0], *named], rows, say("page.numbers"))

    def data(self) -> Data:
        from importlib import import_module

        module, _, function = self.source.partition(":")
        found: Data = getattr(import_module(module), function)()
        return found

    def _named(self, data: Data, say: Catalogue) -> dict[str, Sequence[float]]:
        return {say(f"plot.curve.{name}"): row for name, row in data.curves.items()}


def _show(axis: str) -> Show:
    from sim.units import show_bytes, show_time

    shown: Mapping[str, Callable[[float], str]] = {
        "seconds": show_time,
        "bytes": show_bytes,
        "rate": lambda value: _plain(value / 1e12),
    }
    return shown.get(axis, _plain)


def _unit(axis: str, largest: float) -> float:
    """In which round numbers stand on the axis: of bytes the power of 1024 below the largest."""
    from math import log

    return 1024.0 ** int(log(largest, 1024)) if axis == "bytes" else 1.0


def _plain(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:,.0f}"
