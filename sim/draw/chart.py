"""The picture of a run on paper: a Gantt chart; on its time axis memory and links; below, moments of a collective."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.cells import cell_len

from collectives.span import Span

from ..replay import Replay
from ..units import show_bytes
from .axis import fact_name, fact_text, tick_text, ticks, time_scale, time_text, unit_text, value_text
from .label import Label, label_of, spoken
from .palette import INKS, mix, shade, text_on
from .rings import rings
from .rows import Row, end_of, name_of, rows_of
from .shapes import Line, Picture, Rect, Shape, Text, drawn_width, text_width
from .strips import heat_strips, memory_strips

DARK, MUTED, RULE, IDLE = "#1B2330", "#5B6675", "#D5DAE1", "#F1F3F5"


@dataclass(frozen=True, slots=True)
class Axis:
    """Where a time is drawn."""

    left: float
    width: float
    end: float

    def x(self, time: float) -> float:
        return self.left + min(max(time / self.end if self.end else 0.0, 0.0), 1.0) * self.width


def chart(replay: Replay) -> Picture:
    rows, end, words = rows_of(replay), end_of(replay), replay.words
    labels = {id(span): label_of(span, words) for row in rows for span in row.spans}
    axis = Axis(_left(replay, rows), _width(rows, end), end)
    peaks = (text_width(value_text(max(curve.values, default=0.0), curve.unit, words), 11) for curve in replay.memory)
    width = axis.left + axis.width + max(92.0, 30 + max(peaks, default=0.0))
    shapes: list[Shape] = [Text(20, 28, replay.title, 18, DARK, bold=True)]
    y = 52.0
    for line in _wrapped(replay, width - 40):
        shapes.append(Text(20, y, line, 12, MUTED))
        y += 18
    y = _legend(shapes, replay, labels, y + 8, width)
    y = _gantt(shapes, replay, rows, labels, axis, y)
    y = _axis(shapes, replay, axis, y)
    y = memory_strips(shapes, replay.memory, words, axis.x, end, 20, y)
    y = heat_strips(shapes, replay.links, words, axis.x, end, 20, y)
    y = rings(shapes, replay, width, y)
    boxes, time = sum(len(row.spans) for row in rows), time_text(end, replay.unit, words)
    facts = words("comma").join(_facts(replay))
    what = words("chart.summary", boxes=boxes, rows=len(rows), time=time, facts=facts)
    return Picture(width, y + 12, replay.title, what, shapes)


def _left(replay: Replay, rows: list[Row]) -> float:
    """Room for the names, and for the streams where there are several."""
    names = [*(name_of(replay, row.rank) for row in rows), *(curve.name for curve in replay.links)]
    left = 30.0 + min(max([*map(cell_len, names), 4]), 28) * 7
    streams = {row.stream for row in rows}
    longest = max((cell_len(spoken(stream, replay.words)) for stream in streams), default=0)
    return left + (58 + 6 * max(0, longest - 10)) * (len(streams) > 1)


def _width(rows: list[Row], end: float) -> float:
    """Wide enough for a label in most boxes of the main rows, within reason."""
    lengths = sorted(span.end - span.start for row in rows if row.main for span in row.spans if span.end > span.start)
    usual = lengths[len(lengths) // 2] if lengths else end
    return min(max(760.0, end / usual * 30 if usual else 0.0), 2400.0)


def _facts(replay: Replay) -> list[str]:
    words = replay.words
    return [
        f"{fact_name(key, words)} {fact_text(key, value, replay.unit, words)}"
        for key, value in replay.facts.items()
        if value != ""
    ]


def _wrapped(replay: Replay, width: float) -> Iterator[str]:
    line = ""
    for fact in _facts(replay):
        longer = f"{line}   ·   {fact}" if line else fact
        if line and text_width(longer, 12) > width:
            yield line
            longer = fact
        line = longer
    if line:
        yield line


def _legend(shapes: list[Shape], replay: Replay, labels: dict[int, Label], y: float, width: float) -> float:
    chunks = 1 + max((label.chunk for label in labels.values()), default=0)
    kinds = [kind for kind in INKS if any(label.kind == kind for label in labels.values())]
    if kinds == ["other"]:  # with nothing to tell it from, the word says nothing
        kinds = []
    entries = [(f"{kind}  " * (len(kind) == 1) + replay.words(f"ink.{kind}"), kind) for kind in kinds]
    x = 20.0
    for text, kind in [*entries, (replay.words("legend.idle"), "")]:
        if x + 26 + drawn_width(text, 12) > width - 20:
            x, y = 20.0, y + 20
        shapes += _box(x, y - 7, 20, 14, kind, 0, 1) if kind else [Rect(x, y - 7, 20, 14, IDLE, "", RULE)]
        shapes.append(Text(x + 26, y, text, 12, DARK))
        x += 26 + drawn_width(text, 12) + 24
    if chunks > 1:
        shapes.append(Text(x, y, replay.words("legend.chunks", last=chunks - 1), 12, MUTED))
    return y + 20


def _box(
    x: float, y: float, width: float, height: float, kind: str, chunk: int, chunks: int, tip: str = ""
) -> list[Shape]:
    ink = INKS[kind]
    fill = shade(ink.light, chunk, chunks)
    pattern = "" if ink.pattern == "bar" else ink.pattern
    edge = "#FFFFFF" if width > 3 else ""
    shapes: list[Shape] = [Rect(x, y, width, height, fill, pattern, edge, tip)]
    if ink.pattern == "bar" and width > 3:
        shapes.append(Rect(x + 0.5, y + height - 3, width - 1, 2.5, mix(fill, "#000000", 0.4)))
    return shapes


def _gantt(
    shapes: list[Shape], replay: Replay, rows: list[Row], labels: dict[int, Label], axis: Axis, y: float
) -> float:
    chunks = 1 + max((label.chunk for label in labels.values()), default=0)
    mains = sum(row.main for row in rows)
    tall = 30.0 if mains <= 16 else max(14.0, 480 / mains)
    several, above = len({row.stream for row in rows}) > 1, None
    if all(row.main for row in rows) and several:
        tall = max(12.0, tall * 0.65)
    for row in rows:
        height = tall if row.main else min(9.0, tall / 2)
        if above is not None and above.rank != row.rank:
            y += 6 if several else 2
        if above is None or above.rank != row.rank:
            shapes.append(Text(20, y + height / 2, name_of(replay, row.rank), 12, DARK))
        if several and (above is None or (above.rank, above.stream) != (row.rank, row.stream)):
            stream = spoken(row.stream, replay.words)
            shapes.append(Text(axis.left - 8, y + height / 2, stream, 11 if row.main else 9, MUTED, "end"))
        shapes.append(Rect(axis.left, y, axis.width, height, IDLE))
        for span in row.spans:
            label, x = labels[id(span)], axis.x(span.start)
            width = max(axis.x(span.end) - x, 0.4)
            shapes += _box(x, y, width, height, label.kind, label.chunk, chunks, _tip(replay, span))
            if row.main:
                shapes += _written(label, x, y, width, height, shade(INKS[label.kind].light, label.chunk, chunks))
        y, above = y + height + 1, row
    return y


def _written(label: Label, x: float, y: float, width: float, height: float, fill: str) -> Iterator[Shape]:
    """The longest text that fits; else letter over number; else the letter."""
    ink, size = text_on(fill), min(11.0, height - 3)
    text = next((text for text in label.texts if text_width(text, size) <= width - 2), "")
    letter, number = label.texts[-1][:1], label.texts[-1][1:]
    if text:
        yield Text(x + width / 2, y + height / 2, text, size, ink, "middle")
    elif number and len(label.kind) == 1 and height >= 20 and text_width(number, 7) <= width - 1:
        yield Text(x + width / 2, y + height / 2 - 5, letter, 8.5, ink, "middle")
        yield Text(x + width / 2, y + height / 2 + 4.5, number, 8, ink, "middle")
    elif len(label.kind) == 1 and text_width(letter, 8) <= width - 1:
        yield Text(x + width / 2, y + height / 2, letter, min(8.5, size), ink, "middle")


def _tip(replay: Replay, span: Span) -> str:
    words = replay.words
    stream, name = spoken(span.stream, words), spoken(span.name, words)
    start, end, length = (time_text(t, replay.unit, words) for t in (span.start, span.end, span.end - span.start))
    lines = [
        words("box.what", rank=name_of(replay, span.rank), stream=stream, name=name),
        words("box.when", start=start, end=end, length=length),
    ]
    if span.bytes or span.link:
        lines.append(words("comma").join(filter(None, [span.link, show_bytes(span.bytes) if span.bytes else ""])))
    return "\n".join(lines)


def _axis(shapes: list[Shape], replay: Replay, axis: Axis, y: float) -> float:
    factor, unit = time_scale(axis.end, replay.unit)
    y += 4
    shapes.append(Line(((axis.left, y), (axis.left + axis.width, y)), MUTED))
    for tick in ticks(axis.end * factor, int(axis.width / 90)):
        x = axis.x(tick / factor)
        shapes += [Line(((x, y), (x, y + 5)), MUTED), Text(x, y + 14, tick_text(tick), 11, MUTED, "middle")]
    shapes.append(Text(axis.left + axis.width + 10, y + 14, unit_text(unit, replay.words), 11, MUTED))
    return y + 30
