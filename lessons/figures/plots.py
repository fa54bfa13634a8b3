"""Numbers from a lesson's facts as curves on logarithmic axes; in the terminal as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from rich.text import Text

    from ..catalogue import Catalogue

Show: TypeAlias = Callable[[float], str]


@dataclass(frozen=True)
class Data:
    """x: where; curves: name in ``plots.curve`` → a number at each x; points: name in ``plots.point`` → (x, y)."""

    x: Sequence[float]
    curves: Mapping[str, Sequence[float]]
    points: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Plots:
    """title: of ``plots.title``; source: ``module:function`` that returns :class:`Data`; x, y: of ``plots.axis``, what
    the axes are, and so how their numbers are written."""

    title: str
    source: str
    x: str
    y: str

    def lines(self, say: Catalogue, width: int) -> list[Text]:
        from rich.text import Text

        from ..text import table, wrap

        data, (show_x, show_y) = self.data(), self._show()
        names = [say(f"plots.curve.{name}") for name in data.curves]
        rows = [[Text(say(f"plots.axis.{self.x}"), "bold"), *(Text(name, "bold") for name in names)]]
        rows += [
            [Text(show_x(at)), *(Text(show_y(row[number])) for row in data.curves.values())]
            for number, at in enumerate(data.x)
        ]
        lines = [*table(rows, [True] * len(rows[0]), width), Text()]
        for name, (at, value) in data.points.items():
            lines += wrap(Text(f"{say(f'plots.point.{name}')}: {show_x(at)} → {show_y(value)}"), width)
        return [*lines, *wrap(Text(say(f"plots.axis.{self.y}"), "dim"), width)]

    def html(self, say: Catalogue) -> str:
        from html import escape

        from .curves import curves
        from .markup import data_table, inline

        data, show = self.data(), self._show()
        named = {say(f"plots.curve.{name}"): row for name, row in data.curves.items()}
        points = {say(f"plots.point.{name}"): at for name, at in data.points.items()}
        picture = curves(data.x, named, say(f"plots.title.{self.title}"), say, show, points, fastest=False)
        rows = [
            [show[0](at), *(show[1](row[number]) for row in data.curves.values())] for number, at in enumerate(data.x)
        ]
        rows += [[f"{name}: {show[0](at)}", show[1](value)] for name, (at, value) in points.items()]
        across, up = (say(f"plots.axis.{axis}") for axis in (self.x, self.y))
        note = f'<p class="note">{escape(say("plots.axes", across=across, up=up))}</p>'
        return inline(picture) + note + data_table([across, *named], rows, say("page.numbers"))

    def data(self) -> Data:
        from importlib import import_module

        module, _, function = self.source.partition(":")
        found: Data = getattr(import_module(module), function)()
        return found

    def _show(self) -> tuple[Show, Show]:
        from sim.units import show_time

        shown: Mapping[str, Show] = {
            "seconds": show_time,
            "rate": lambda value: _plain(value / 1e12),
        }
        return tuple(shown.get(axis, _plain) for axis in (self.x, self.y))  # type: ignore[return-value]


def _plain(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:,.0f}"
