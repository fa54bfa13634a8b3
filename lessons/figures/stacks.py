"""What something consists of, and how much of each: stacked bars, one a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.text import Text

    from sim.draw.shapes import Shape

    from ..catalogue import Catalogue

_COLOURS = ("#0072B2", "#56B4E9", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#7A5C00", "#8C96A3")
_PATTERNS = ("", "dots", "", "hatch")
_STYLES = ("blue", "cyan", "red", "green", "magenta", "yellow", "dim", "")
_WIDTH, _ROW, _SIZE = 760.0, 30.0, 13.0


@dataclass(frozen=True)
class Row:
    """One bar. name: of ``stacks.row``, said with ``fields``; parts: of ``stacks.part``, in order, and their sizes."""

    name: str
    parts: Mapping[str, float]
    fields: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Stacks:
    """Bars from a lesson's facts. title: of ``stacks.title``; source: ``module:function`` that returns rows; unit: how
    sizes are shown; limit: a line across, as ``stacks.limit`` names it."""

    title: str
    source: str
    unit: str = "number"
    limit: float = 0.0

    def lines(self, say: Catalogue, width: int) -> list[Text]:
        from rich.cells import cell_len
        from rich.text import Text

        from ..text import wrap

        rows, parts = self.rows(), self.parts()
        letters, names = _letters(parts), [self.name(row, say) for row in rows]
        right = max(len(self._whole(row)) for row in rows) + 1
        left = max(map(cell_len, names)) + 1
        own_line = left + right + 24 > width
        room = width - right - (2 if own_line else left)
        lines = []
        for row, name in zip(rows, names, strict=True):
            if own_line:
                lines.append(Text(name))
            bar = Text("  " if own_line else name + " " * (left - cell_len(name)))
            at, used = 0.0, 0
            for part, size in row.parts.items():
                at += size
                end = round(at / self.end(rows) * room)
                bar.append(letters[part] * (end - used), _STYLES[parts.index(part) % len(_STYLES)])
                used = end
            rest = " " * (room - used)
            edge = min(round(self.limit / self.end(rows) * room), room - 1) - used
            bar.append(rest if not self.limit or edge < 0 else rest[:edge] + "|" + rest[edge + 1 :])
            lines.append(bar + Text(self._whole(row).rjust(right)))
        legend = [f"{letters[part]} {say(f'stacks.part.{part}')}".replace(" ", "\u00a0") for part in parts]
        legend += ["|\u00a0" + self._limit(say).replace(" ", "\u00a0")] * bool(self.limit)
        shown = wrap(Text("   ".join(legend)), width)
        return [*lines, Text(), *(Text(line.plain.replace("\u00a0", " "), "dim") for line in shown)]

    def html(self, say: Catalogue) -> str:
        from sim.draw.shapes import Line, Picture, Rect, drawn_width, text_width
        from sim.draw.shapes import Text as Label

        from .curves import INK, MUTED
        from .markup import data_table, inline

        rows, parts, show = self.rows(), self.parts(), _SHOWN[self.unit]
        names, title = [self.name(row, say) for row in rows], say(f"stacks.title.{self.title}")
        words = {part: say(f"stacks.part.{part}") for part in parts}
        left = 24 + max(text_width(name, _SIZE) for name in names)
        scale = (_WIDTH - left - 100) / self.end(rows)
        shapes: list[Shape] = [Label(16, 24, title, 15, INK, bold=True)]
        x, y = 16.0, 54.0
        for number, part in enumerate(parts):
            if x + 30 + drawn_width(words[part], _SIZE) > _WIDTH:
                x, y = 16.0, y + 22
            shapes.append(Rect(x, y - 7, 14, 14, *_look(number)))
            shapes.append(Label(x + 20, y, words[part], _SIZE, INK))
            x += 46 + drawn_width(words[part], _SIZE)
        y += 24
        top = y - 4
        for row, name in zip(rows, names, strict=True):
            shapes.append(Label(left - 10, y + 11, name, _SIZE, INK, "end"))
            x = left
            for part, size in row.parts.items():
                if size:
                    tip = f"{name}: {words[part]} {show(size)}"
                    shapes.append(Rect(x, y, size * scale, _ROW - 8, *_look(parts.index(part)), tip=tip))
                x += size * scale
            shapes.append(Label(x + 8, y + 11, self._whole(row), _SIZE, INK))
            y += _ROW
        if self.limit:
            x = left + self.limit * scale
            shapes.append(Line(((x, top), (x, y + 2)), INK, 1.5, dashed=True))
            shapes.append(Label(x, y + 14, self._limit(say), _SIZE, MUTED, "middle"))
            y += 24
        said = "; ".join(f"{name}: {self._whole(row)}" for name, row in zip(names, rows, strict=True))
        table = [
            [name, *(show(row.parts.get(part, 0.0)) for part in parts)] for name, row in zip(names, rows, strict=True)
        ]
        heads = [say("stacks.what"), *words.values()]
        picture = Picture(_WIDTH, y + 8, title, said, shapes)
        return inline(picture) + data_table(heads, table, say("page.numbers"))

    def rows(self) -> Sequence[Row]:
        from importlib import import_module

        module, _, function = self.source.partition(":")
        found: Sequence[Row] = getattr(import_module(module), function)()
        return found

    def parts(self) -> list[str]:
        """Those of any row, in the order in which they come."""
        return list(dict.fromkeys(part for row in self.rows() for part, size in row.parts.items() if size))

    def end(self, rows: Sequence[Row]) -> float:
        return max([self.limit, *(_total(row) for row in rows)])

    def name(self, row: Row, say: Catalogue) -> str:
        return say(f"stacks.row.{row.name}", **row.fields)

    def _whole(self, row: Row) -> str:
        """The size of a bar; nothing where it is all there is."""
        return "" if self.unit == "percent" else _SHOWN[self.unit](_total(row))

    def _limit(self, say: Catalogue) -> str:
        return say("stacks.limit", size=_SHOWN[self.unit](self.limit))


def _total(row: Row) -> float:
    return sum(row.parts.values())


def _look(number: int) -> tuple[str, str]:
    """The colour and the pattern of a part."""
    return _COLOURS[number % len(_COLOURS)], _PATTERNS[number % len(_PATTERNS)]


def _letters(parts: Sequence[str]) -> dict[str, str]:
    """A letter for each part, from its id."""
    found: dict[str, str] = {}
    for part in parts:
        found[part] = next(one for one in part.upper() + "XYZ" if one.isalpha() and one not in found.values())
    return found


def _number(value: float) -> str:
    return f"{value:.4g}"


def _percent(value: float) -> str:
    return f"{value:.1%}"


def _gigabytes(value: float) -> str:
    return f"{value / 1e9:.1f} GB"


_SHOWN: Mapping[str, Callable[[Any], str]] = {"number": _number, "percent": _percent, "gigabytes": _gigabytes}
