"""Pictures of letters: a Gantt chart, the links, the grid. Readable in a pipe, without colour and without Unicode."""

from __future__ import annotations

import math
import os
import shutil
import sys
from dataclasses import dataclass, replace
from itertools import pairwise

from rich.cells import cell_len, set_cell_size

from ..replay import Replay
from ..units import show_bytes
from .axis import mean, tick_text, ticks, time_scale, unit_text, value_text
from .label import Label, label_of, spoken
from .moment import complete, held_at
from .palette import INKS
from .rows import Row, end_of, name_of, rows_of

_SIGNS = {"send": ">", "recv": "<", "reduce": "+", "collective": "=", "other": "x"}  # other kinds are a letter
_MOST_LINKS = 20  # a table that scrolls away helps nobody


@dataclass(frozen=True, slots=True)
class Screen:
    """What the terminal, or the pipe in its place, can show."""

    width: int
    colour: bool
    unicode: bool

    @classmethod
    def now(cls, width: int | None) -> Screen:
        tty = sys.stdout.isatty()
        try:
            "─┴█·".encode(sys.stdout.encoding or "ascii")
            unicode = True
        except UnicodeEncodeError:
            unicode = False
        columns = width or (shutil.get_terminal_size().columns if tty else 80)
        return cls(max(columns, 20), tty and not os.environ.get("NO_COLOR"), unicode)

    def spell(self, text: str) -> str:
        """``text`` in characters that the screen has, in as many columns."""
        if self.unicode:
            return text
        encoding = sys.stdout.encoding or "ascii"
        text = text.translate(str.maketrans("─┴└█·…×→←", "-++#.~x><"))
        known = ((letter, letter.encode(encoding, "replace").decode(encoding)) for letter in text)
        return "".join(shown if shown == letter else shown * cell_len(letter) for letter, shown in known)

    def write(self, text: str) -> str:
        """``text`` in characters that the screen has, not wider than it is."""
        text = self.spell(text)
        if cell_len(text) > self.width:
            text = set_cell_size(text, self.width - 1) + ("…" if self.unicode else "~")
        return text.rstrip()


def gantt(replay: Replay, width: int | None = None) -> str:
    """Time to the right, rank 0 on top: a cell a slot where that fits (`` F0F1 .. B0``), else to scale.

    Args:
        width: columns; the terminal's by default, 80 in a pipe.
    """
    screen, end = Screen.now(width), end_of(replay)
    rows = [row for row in rows_of(replay) if row.main]
    names = [screen.spell(name) for name in _row_names(replay, rows)]
    left = min(max(map(cell_len, names), default=0), screen.width // 3) + 1
    labels = {id(span): label_of(span, replay.words) for row in rows for span in row.spans}
    room = screen.width - left
    cell = max((_columns(label.texts[-1]) for label in labels.values()), default=1)
    slot = _slot(rows)
    columns = round(end / slot) * cell if slot else 0
    fits = 0 < columns <= room
    per_second = (columns if fits else room) / end if end else 0.0
    shortest = min((span.end - span.start for row in rows for span in row.spans), default=end) * per_second
    letters = not fits and any(row.stream == "compute" for row in rows) and shortest < cell / 2
    lines = [screen.write(replay.title)]
    for name, row in zip(names, rows, strict=True):
        boxes = [(s.start * per_second, s.end * per_second, labels[id(s)]) for s in row.spans]
        if letters:  # numbers on some boxes and not on others would be noise
            boxes = [(start, last, replace(label, texts=(_sign(label.kind),))) for start, last, label in boxes]
        lines.append(set_cell_size(name, left - 1) + " " + _line(screen, boxes, round(end * per_second)))
    lines += [screen.write(line) for line in _axis(left, end, per_second, replay)]
    kinds = [kind for kind in INKS if any(label.kind == kind for label in labels.values())]
    entries = [*(f"{_sign(kind)} {replay.words(f'ink.{kind}')}" for kind in kinds), f"· {replay.words('legend.idle')}"]
    return "\n".join([*lines, *(screen.write(" " * left + line) for line in _wrapped(entries, room))])


def links(replay: Replay, width: int | None = None) -> str:
    """What each link carried; the one that is used most, the bottleneck, first."""
    screen, end, words = Screen.now(width), end_of(replay), replay.words
    table: list[tuple[float, list[str]]] = []
    for curve in replay.links:
        average = mean(curve, end)
        carried = show_bytes(average * end * 1e9) if curve.unit == "GB/s" else ""
        texts = [curve.name, carried, *(value_text(value, curve.unit, words) for value in (average, curve.limit))]
        table.append((average / curve.limit if curve.limit else 0.0, texts))
    table.sort(key=lambda row: -row[0])
    heading = [words(f"links.{column}") for column in ("name", "carried", "mean", "limit")]
    shown = [(0.0, heading), *table[:_MOST_LINKS]]
    widths = [max(cell_len(texts[column]) for _, texts in shown) for column in range(4)]
    bar = max(5, min(30, screen.width - sum(widths) - 16))
    lines = []
    for number, (share, texts) in enumerate(shown):
        blocks = ("█" * round(min(share, 1) * bar)).ljust(bar, "·") + f" {share:6.1%}"
        name, *numbers = texts
        right = (" " * (room - cell_len(text)) + text for text, room in zip(numbers, widths[1:], strict=True))
        last = blocks if number else words("links.utilisation")
        lines.append("  ".join([set_cell_size(name, widths[0]), *right, last]))
    if len(table) >= len(shown):
        lines.append(words("links.more", count=len(table) - len(shown) + 1))
    return "\n".join(screen.write(line) for line in lines)


def grid(replay: Replay, time: float, width: int | None = None) -> str:
    """Which contributions every rank's chunks hold at ``time``, counted; ``*`` behind those that are complete."""
    screen, whole, held = Screen.now(width), complete(replay), held_at(replay, time)
    cell = max(len(str(n)) for n in [*whole, replay.chunks]) + 2
    names = [replay.words("grid.chunk"), *(name_of(replay, rank) for rank in range(len(held)))]
    left = max(map(cell_len, names))
    lines = [set_cell_size(names[0], left) + "".join(f"{chunk:>{cell - 1}} " for chunk in range(replay.chunks))]
    for name, row in zip(names[1:], held, strict=True):
        cells = (f"{n or '·':>{cell - 1}}{'*' if n and n == most else ' '}" for n, most in zip(row, whole, strict=True))
        lines.append(set_cell_size(name, left) + "".join(cells))
    return "\n".join(screen.write(line) for line in lines)


def _sign(kind: str) -> str:
    """What stands in a box that is too narrow for its name."""
    return _SIGNS.get(kind, kind)


def _columns(text: str) -> int:
    """What a text takes up; a number needs a gap behind it, so that the next one does not make it longer."""
    return cell_len(text) + text[:1].isdigit()


def _wrapped(entries: list[str], room: int) -> list[str]:
    lines = entries[:1]
    for entry in entries[1:]:
        if cell_len(lines[-1]) + 2 + cell_len(entry) <= room:
            lines[-1] += "  " + entry
        else:
            lines.append(entry)
    return lines


def _row_names(replay: Replay, rows: list[Row]) -> list[str]:
    """The rank's name; with its stream where it has several; once for all lanes of one."""
    several = len({row.stream for row in rows}) > 1
    names = [name_of(replay, row.rank) + f" {spoken(row.stream, replay.words)}" * several for row in rows]
    return names[:1] + ["" if name == above else name for above, name in pairwise(names)]


def _slot(rows: list[Row]) -> float:
    """The longest time that all starts and lengths are multiples of; 0 if there is none worth a cell."""
    times = sorted({t for row in rows for s in row.spans for t in (s.start, s.end - s.start)})
    shortest = next((time for time in times if time > 0), 0.0)
    for parts in (1, 2, 3, 4):
        slot = shortest / parts
        if slot and all(math.isclose(t / slot, round(t / slot), abs_tol=1e-6) for t in times):
            return slot
    return 0.0


def _line(screen: Screen, boxes: list[tuple[float, float, Label]], columns: int) -> str:
    """One row. A box has at least one column, if the one before it leaves it one."""
    fill, idle = ("─", "·") if screen.unicode else ("-", ".")
    line, at = "", 0
    for start, end, label in boxes:
        first = max(at, round(start))
        last = min(columns, max(round(end), first + 1))
        if last <= first:
            continue
        room = last - first
        text = screen.spell(next((text for text in label.texts if _columns(text) <= room), _sign(label.kind)))
        spare = room - cell_len(text)
        text += " " if spare == 1 < cell_len(text) else fill * spare
        paint = f"\x1b[{INKS[label.kind].ansi}m{text}\x1b[0m" if screen.colour else text
        line += idle * (first - at) + paint
        at = last
    return line + idle * (columns - at)


def _axis(left: int, end: float, per_second: float, replay: Replay) -> list[str]:
    factor, unit = time_scale(end, replay.unit)
    columns = round(end * per_second)
    rule, numbers = ["─"] * columns, ""
    for tick in ticks(end * factor, max(1, columns // 10)):
        at, text = round(tick / factor * per_second), tick_text(tick)
        if at < columns and len(numbers) <= at:
            rule[at] = "┴"
            numbers = f"{numbers:<{at}}{text} "
    return [" " * left + "".join(rule), set_cell_size(unit_text(unit, replay.words), left) + numbers]
