"""Stacked bars, one a row: what something consists of, in the terminal and on paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .palette import INKS
from .shapes import Line, Picture, Rect, Shape, Text, drawn_width, text_width
from .terminal import Screen

# Of each kind its ink's name and the letter that stands for it without colour.
LOOKS: Mapping[str, tuple[str, str]] = {
    "parameters": ("F", "P"),
    "gradients": ("B", "G"),
    "optimizer": ("O", "O"),
    "activations": ("send", "A"),
    "logits": ("recv", "L"),
    "working": ("W", "W"),
    "buffers": ("reduce", "B"),
    "fragmentation": ("other", "F"),
}
_MOST = 16  # rows; of more, runs of equal ones are drawn once and the middle is left out
_ROW, _SIZE, _WIDTH = 26.0, 13.0, 720.0


@dataclass(frozen=True)
class Bars:
    """rows: their names; kinds: for each kind a number a row; limit: a line across, with its name (0: none)."""

    title: str
    rows: Sequence[str]
    kinds: Mapping[str, Sequence[float]]
    limit: float = 0.0
    limit_name: str = ""

    def total(self, row: int) -> float:
        return sum(values[row] for values in self.kinds.values())

    @property
    def end(self) -> float:
        """Where the axis ends."""
        return max([self.total(row) for row in range(len(self.rows))] + [self.limit, 1e-9])


def in_terminal(bars: Bars, width: int | None = None) -> str:
    """A letter for each kind, in colour where the terminal has it; ``|`` where the limit is."""
    screen = Screen.now(width)
    shown = _chosen(bars)
    left = max(len(name) for name, _ in shown) + 1
    room = screen.width - left - 9
    lines = [screen.write(bars.title)]
    for name, row in shown:
        if row < 0:
            lines.append(name)
            continue
        cells, at = "", 0.0
        for kind, values in bars.kinds.items():
            first, at = round(at / bars.end * room), at + values[row]
            ink, letter = LOOKS[kind]
            text = letter * (round(at / bars.end * room) - first)
            cells += f"\x1b[{INKS[ink].ansi}m{text}\x1b[0m" if screen.colour and text else text
        blank = list(" " * (room - round(at / bars.end * room)))
        edge = min(round(bars.limit / bars.end * room), room - 1) - (room - len(blank))
        if bars.limit and edge >= 0:
            blank[edge] = "|"
        lines.append(f"{name:<{left}}{cells}{''.join(blank)}{bars.total(row):>9.1f}")
    used = [kind for kind, values in bars.kinds.items() if any(values)]
    legend, line = [], " " * left
    for entry in [*(f"{LOOKS[kind][1]} {kind}" for kind in used), *([f"| {bars.limit_name}"] * bool(bars.limit))]:
        if len(line) + len(entry) + 2 > screen.width:
            legend.append(line.rstrip())
            line = " " * left
        line += entry + "  "
    return "\n".join([*lines, *legend, line.rstrip()])


def _chosen(bars: Bars) -> list[tuple[str, int]]:
    """The rows that are drawn, and -1 for those that are left out."""
    rows = list(range(len(bars.rows)))
    if len(rows) <= _MOST:
        return [(bars.rows[row], row) for row in rows]
    head, tail = rows[: _MOST // 2], rows[-_MOST // 2 + 1 :]
    between = f"… {len(rows) - len(head) - len(tail)} more"
    return [*((bars.rows[r], r) for r in head), (between, -1), *((bars.rows[r], r) for r in tail)]


def picture(bars: Bars) -> Picture:
    """The same on paper; every part says on pointing what it is."""
    shapes: list[Shape] = []
    left = 20 + max(text_width(name, _SIZE) for name in bars.rows)
    width = max(_WIDTH, 32 + text_width(bars.title, 15))
    scale = (width - left - 80) / bars.end
    y = 20.0
    shapes.append(Text(16, y, bars.title, 15, "#1A1F26", bold=True))
    y += 28
    x = 16.0
    for kind in (kind for kind, values in bars.kinds.items() if any(values)):
        ink = INKS[LOOKS[kind][0]]
        if x + 24 + drawn_width(kind, _SIZE) > width:
            x, y = 16.0, y + 20
        shapes += [Rect(x, y - 6, 12, 12, ink.light, _pattern(ink.pattern)), Text(x + 17, y, kind, _SIZE, "#1A1F26")]
        x += 40 + drawn_width(kind, _SIZE)
    y += 26
    top = y - 4
    for row, name in enumerate(bars.rows):
        shapes.append(Text(left - 8, y + _ROW / 2 - 3, name, _SIZE, "#1A1F26", "end"))
        x = left
        for kind, values in bars.kinds.items():
            wide, ink = values[row] * scale, INKS[LOOKS[kind][0]]
            if wide:
                tip = f"{name}: {kind} {values[row]:.2f} GB"
                shapes.append(Rect(x, y, wide, _ROW - 6, ink.light, _pattern(ink.pattern), tip=tip))
            x += wide
        shapes.append(Text(x + 6, y + _ROW / 2 - 3, f"{bars.total(row):.1f}", _SIZE, "#1A1F26"))
        y += _ROW
    if bars.limit:
        x = left + bars.limit * scale
        shapes.append(Line(((x, top), (x, y)), "#1A1F26", 1.5, dashed=True))
        shapes.append(Text(x, y + 10, f"{bars.limit_name}: {bars.limit:.1f}", _SIZE, "#1A1F26", "end"))
        y += 22
    totals = "; ".join(f"{name} {bars.total(row):.1f}" for row, name in enumerate(bars.rows[:_MOST]))
    return Picture(width, y + 12, bars.title, totals, shapes)


def write(bars: Bars, path: str) -> None:
    """An SVG, or a PNG if the name says so."""
    from collectives.atomic import replacing, write_text

    if path.lower().endswith(".png"):
        from .png import check_png, write_png

        check_png()
        with replacing(path) as fresh:
            write_png(picture(bars), Path(fresh))
    else:
        from .svg import svg

        write_text(path, svg(picture(bars)))


def _pattern(name: str) -> str:
    return name if name in ("hatch", "dots") else ""
