"""Pictures of letters: a Gantt chart, the links, the grid. Readable in a pipe, without colour and without Unicode."""

from __future__ import annotations

import math
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from rich.cells import cell_len, set_cell_size

from collectives.span import Span

from ..replay import Replay
from ..units import show_bytes
from ..words import Words
from .axis import mean, tick_text, ticks, time_scale, unit_text, value_text
from .label import Label, label_of, spoken
from .moment import complete, held_at
from .palette import INKS
from .rows import Row, end_of, name_of, rows_of

_SIGNS = {"send": ">", "recv": "<", "reduce": "+", "collective": "=", "other": "x"}  # other kinds are a letter
_WIDEST = 6  # columns of a message, where there is room
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


@dataclass(frozen=True, slots=True)
class Box:
    """What is drawn of a span: from column ``first`` up to ``last``, with ``text`` in it."""

    first: int
    last: int
    label: Label
    text: str


def gantt(replay: Replay, width: int | None = None) -> str:
    """Time to the right, rank 0 on top: a cell a slot where that fits (`` F0F1 .. B0``), else to scale.

    Args:
        width: columns; the terminal's by default, 80 in a pipe.
    """
    screen, end = Screen.now(width), end_of(replay)
    rows = [row for row in rows_of(replay) if row.main]
    names = [screen.spell(name) for name in _row_names(replay, rows)]
    left = min(max(map(cell_len, names), default=0), screen.width // 3) + 1
    labels = {id(span): _label(span, replay, rows) for row in rows for span in row.spans}
    computes = any(row.stream == "compute" for row in rows)
    room = screen.width - left
    cell = max((_columns(label.texts[-1]) for label in labels.values()), default=1)
    slot = _slot(rows)
    slots = round(end / slot) if slot else 0
    if slots and not computes:  # few messages need not be tiny
        cell = max(cell, min(room // slots, _WIDEST))
    fits = 0 < slots * cell <= room
    per_second = (slots * cell if fits else room) / end if end else 0.0
    columns = round(end * per_second)
    shortest = min((span.end - span.start for row in rows for span in row.spans), default=end) * per_second
    letters = not fits and computes and shortest < cell / 2
    drawn: list[list[Box]] = []
    for row in rows:
        spans = [(s.start * per_second, s.end * per_second, labels[id(s)]) for s in row.spans]
        if letters:  # numbers on some boxes and not on others would be noise
            spans = [(start, last, replace(label, texts=(_sign(label.kind),))) for start, last, label in spans]
        drawn.append(list(_boxes(screen, spans, columns)))
    lines = [screen.write(replay.title)]
    for name, boxes in zip(names, drawn, strict=True):
        lines.append(set_cell_size(name, left - 1) + " " + _line(screen, boxes, columns))
    if not columns:  # nothing happens
        return "\n".join(lines)
    lines += [screen.write(line) for line in _axis(left, end, columns, replay)]
    entries = _legend(screen, [box for boxes in drawn for box in boxes], replay)
    if any(_is_idle(boxes, columns) for boxes in drawn):
        entries.append(f"· {replay.words('legend.idle')}")
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
    return cell_len(text) + (text[:1].isdigit() or " " in text)


def _wrapped(entries: list[str], room: int) -> list[str]:
    lines: list[str] = []
    for entry in entries:
        if lines and cell_len(lines[-1]) + 2 + cell_len(entry) <= room:
            lines[-1] += "  " + entry
        else:
            lines += textwrap.wrap(entry, room)
    return lines


def _label(span: Span, replay: Replay, rows: list[Row]) -> Label:
    """Its label; the chunk alone where the row's name says already whether it is sent or received."""
    label = label_of(span, replay.words)
    says = len({row.stream for row in rows}) > 1 and span.name.partition(" ")[0] == span.stream.partition(" ")[0]
    return replace(label, texts=label.texts[-1:]) if says and label.texts[-1][:1].isdigit() else label


def _row_names(replay: Replay, rows: list[Row]) -> list[str]:
    """The rank's name; with its stream where it has several; once for all lanes of one."""
    streams = {row.stream for row in rows}
    if len({stream.partition(" ")[2] for stream in streams}) == 1:  # one channel: its number says nothing
        shown = {stream: spoken(stream.partition(" ")[0], replay.words) for stream in streams}
    else:
        shown = {stream: spoken(stream, replay.words) for stream in streams}
    several = len(streams) > 1
    names = [name_of(replay, row.rank) + f" {shown[row.stream]}" * several for row in rows]
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


def _boxes(screen: Screen, spans: list[tuple[float, float, Label]], columns: int) -> Iterator[Box]:
    """Those of one row. A box has at least one column, if the one before it leaves it one."""
    at = 0
    for start, end, label in spans:
        first = max(at, round(start))
        last = min(columns, max(round(end), first + 1))
        if last > first:
            text = next((text for text in label.texts if _columns(text) <= last - first), _sign(label.kind))
            yield Box(first, last, label, screen.spell(text))
            at = last


def _line(screen: Screen, boxes: list[Box], columns: int) -> str:
    fill, idle = ("─", "·") if screen.unicode else ("-", ".")
    line, at = "", 0
    for box in boxes:
        spare = box.last - box.first - cell_len(box.text)
        text = box.text + (" " if spare == 1 < cell_len(box.text) else fill * spare)
        paint = f"\x1b[{INKS[box.label.kind].ansi}m{text}\x1b[0m" if screen.colour else text
        line += idle * (box.first - at) + paint
        at = box.last
    return line + idle * (columns - at)


def _is_idle(boxes: list[Box], columns: int) -> bool:
    """Whether some of a row is not under a box."""
    return sum(box.last - box.first for box in boxes) < columns


def _legend(screen: Screen, boxes: list[Box], replay: Replay) -> list[str]:
    """What the marks that are drawn stand for: letters and signs, and a message with the chunk or rank in its box."""
    entries, words = [], replay.words
    for kind in INKS:
        drawn = {box.text for box in boxes if box.label.kind == kind}
        if (drawn and len(kind) == 1) or screen.spell(_sign(kind)) in drawn:
            entries.append(f"{_sign(kind)} {words(f'ink.{kind}')}")
    messages = [box for box in boxes if box.label.kind in ("send", "recv") and box.text != _sign(box.label.kind)]
    carried = {_carried(box, screen, words)[0]: box for box in reversed(messages)}
    return [*entries, *(_carried(box, screen, words)[1] for form, box in carried.items() if form)]


def _carried(box: Box, screen: Screen, words: Words) -> tuple[str, str]:
    """How a box tells what a message carries, and what that means; nothing for names that need no words."""
    short = box.label.texts[-1]
    if short[:1].isdigit():
        return "chunk", f"{box.text}─ {words('legend.chunk', chunk=short)}"
    if box.text != screen.spell(short) or short[:1] not in "→←":
        return "", ""
    form = "to" if short[0] == "→" else "from"
    return form, f"{short} {words(f'legend.{form}', rank=short[1:])}"


def _axis(left: int, end: float, columns: int, replay: Replay) -> list[str]:
    """Ticks at the start, at the end, and at round times where their numbers fit between."""
    factor, unit = time_scale(end, replay.unit)
    rule, numbers = ["─"] * columns, ""
    last = f"{end * factor:.4g}"
    for tick in ticks(end * factor, max(1, columns // 10)):
        at, text = round(tick / (end * factor) * columns), tick_text(tick)
        if at < columns and len(numbers) <= at and (not at or at + len(text) < columns - len(last)):
            rule[at] = "┴"
            numbers = f"{numbers:<{at}}{text} "
    if columns > 1:
        rule[-1] = "┴"
        numbers = f"{numbers:<{columns - len(last)}}{last}"
    return [" " * left + "".join(rule), set_cell_size(unit_text(unit, replay.words), left) + numbers]
