"""Shares as bars, some of them marked: how a lot of numbers lie."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

    from ..catalogue import Catalogue

_LEFT, _TOP, _HEIGHT, _BAR = 56.0, 62.0, 220.0, 17.0


@dataclass(frozen=True)
class Bar:
    """label: below it; share: of all, 0 to 1; kind: which of the figure's kinds it belongs to."""

    label: str
    share: float
    kind: int


@dataclass(frozen=True)
class Bars:
    """A histogram. source: ``module:function``, which gives bars. title, x: ids of what is shown, and over what. kinds:
    ids of what the colours mean; each has a pattern, too."""

    source: str
    title: str
    x: str
    kinds: tuple[str, ...]

    def lines(self, say: Catalogue, width: int) -> list[Text]:
        from rich.text import Text

        from ..text import wrap

        bars, room = self._bars(), width - 15
        most = max(bar.share for bar in bars)
        lines = [Text(line.plain, "bold") for line in wrap(Text(say(self.title)), width)]
        for bar in bars:
            mark = "█▒·░"[bar.kind % 4] * max(1, round(room * bar.share / most))
            lines.append(
                Text(f"{bar.label:>6} {bar.share:6.1%} ") + Text(mark, ("green", "yellow", "red")[bar.kind % 3])
            )
        legend = "   ".join(f"{'█▒·░'[kind % 4]} {say(id)}" for kind, id in enumerate(self.kinds))
        return [*lines, Text(), *wrap(Text(f"{say(self.x)}   {legend}", "dim"), width)]

    def html(self, say: Catalogue) -> str:
        from sim.draw.shapes import Picture, Rect, Shape, drawn_width
        from sim.draw.shapes import Text as Label

        from .curves import COLOURS, INK, MUTED
        from .markup import data_table, inline

        bars = self._bars()
        most, wide = max(bar.share for bar in bars), _LEFT + _BAR * len(bars)
        shapes: list[Shape] = [Label(20, 26, say(self.title), 15, INK, bold=True)]
        looks = [(COLOURS[2], ""), (COLOURS[4], "dots"), (COLOURS[1], "hatch")]
        for number, bar in enumerate(bars):
            height = _HEIGHT * bar.share / most
            fill, pattern = looks[bar.kind % len(looks)]
            at = _LEFT + _BAR * number
            shapes.append(
                Rect(at + 1, _TOP + _HEIGHT - height, _BAR - 2, height, fill, pattern, "", f"{bar.share:.1%}")
            )
            if number % 4 == 0:
                shapes.append(Label(at + _BAR / 2, _TOP + _HEIGHT + 16, bar.label, 12, MUTED, "middle"))
        shapes.append(Label(_LEFT - 8, _TOP, f"{most:.0%}", 12, MUTED, "end"))
        shapes.append(Label(_LEFT - 8, _TOP + _HEIGHT, "0%", 12, MUTED, "end"))
        shapes.append(Label((_LEFT + wide) / 2, _TOP + _HEIGHT + 38, say(self.x), 12, MUTED, "middle"))
        x = _LEFT
        for kind, id in enumerate(self.kinds):
            fill, pattern = looks[kind % len(looks)]
            shapes.append(Rect(x, _TOP + _HEIGHT + 58, 14, 14, fill, pattern))
            shapes.append(Label(x + 20, _TOP + _HEIGHT + 65, say(id), 12, INK))
            x += 44 + drawn_width(say(id), 12)
        rows = [[bar.label, f"{bar.share:.1%}", say(self.kinds[bar.kind])] for bar in bars]
        told = "; ".join(f"{row[0]}: {row[1]}, {row[2]}" for row in rows)
        picture = Picture(max(wide, x) + 20, _TOP + _HEIGHT + 84, say(self.title), told, shapes)
        return inline(picture) + data_table([say(self.x), "%", say("plot.kind")], rows, say("page.numbers"))

    def _bars(self) -> Sequence[Bar]:
        module, _, function = self.source.partition(":")
        found: Sequence[Bar] = getattr(importlib.import_module(module), function)()
        return found
