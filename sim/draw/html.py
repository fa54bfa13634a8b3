"""The replay as one page that works offline: timeline, moving chunks, grid, links and memory on one clock.

What the page shows is in one JSON object, packed: times are whole ticks and differences, names and looks are in tables.
``replay.html`` is the markup; style, scripts and words are put into it, so that the page is one file.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

from collectives.span import Span

from ..replay import Curve, Replay
from ..words import Words
from .axis import fact_name, fact_text, mean, time_scale, top, unit_text
from .label import Label, label_of, spoken
from .moment import complete
from .palette import INKS, scale, shade, text_on
from .rows import end_of, name_of, rows_of

_SCRIPTS = ("run.js", "timeline.js", "ring.js", "controls.js")
_TICKS = 1e7  # a run has at most about so many; finer could not be seen
_CARDS = 13


def html(replay: Replay) -> str:
    folder = files(__package__)
    script = "".join((folder / name).read_text("utf-8") for name in _SCRIPTS)
    data = {**pack(replay), "words": {key: replay.words[key] for key in re.findall(r'\bsay\("([^"]+)"', script)}}
    parts = {
        "title": escape(replay.title),
        "style": (folder / "replay.css").read_text("utf-8"),
        "cards": "".join(_card(key, value, replay) for key, value in _cards(replay)),
        "table": "".join(_line(key, value, replay) for key, value in replay.facts.items()),
        "data": json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c"),
        "script": script,
    }

    def part(match: re.Match[str]) -> str:
        return parts[match[1]] if match[1] in parts else escape(replay.words(match[1]))

    return re.sub(r"\{\{([\w.]+)\}\}", part, (folder / "replay.html").read_text("utf-8"))


def pack(replay: Replay) -> dict[str, Any]:
    """What the page's script reads, beside its words; see ``run.js``."""
    end, rows, words = end_of(replay), rows_of(replay), replay.words
    clock = _Clock(replay, end)
    tables = _Tables([label_of(span) for row in rows for span in row.spans], words)
    factor, unit = time_scale(end, replay.unit)
    units = dict.fromkeys([replay.unit, *(curve.unit for curve in replay.memory)])
    ranks = range(max([len(replay.names), *(row.rank + 1 for row in rows)]))
    return {
        "tick": clock.tick,
        "end": clock.ticks(end),
        "scale": [factor, unit_text(unit, words)],
        "ones": {unit_text(one, words): words.counted(one, 1) for one in units if f"one.{one}" in words},
        "names": [name_of(replay, rank) for rank in ranks],
        "rows": [
            [row.rank, spoken(row.stream, words), int(row.main), _boxes(row.spans, tables, clock)] for row in rows
        ],
        "labels": list(tables.labels),
        "styles": [tables.look(*style) for style in tables.styles],
        "shades": tables.shades,
        "chunks": replay.chunks,
        "colours": [(scale(c, replay.chunks), text_on(scale(c, replay.chunks))) for c in range(replay.chunks)],
        "complete": complete(replay),
        "starts": [list(row) for row in replay.starts],
        "moves": _moves(replay, clock),
        "links": [_curve(curve, clock, end, words) for curve in replay.links],
        "memory": [_curve(curve, clock, end, words) for curve in replay.memory],
        "full": top(replay.memory),
    }


class _Clock:
    """Times as whole numbers of a tick: the largest power of ten of which all times are multiples, if there is one."""

    def __init__(self, replay: Replay, end: float) -> None:
        times = {time for span in replay.spans for time in (span.start, span.end)}
        times |= {time for move in replay.moves for time in (move.start, move.end)}
        power = math.floor(math.log10(end)) if end else 0
        finest = power - round(math.log10(_TICKS))
        while power > finest and any(abs(time / 10.0**power - round(time / 10.0**power)) > 1e-6 for time in times):
            power -= 1
        self.tick = float(f"1e{power}")

    def ticks(self, time: float) -> int:
        return round(time / self.tick)


class _Tables:
    """What spans have in common, once: [style, name, bytes, link, texts …], and the looks they refer to."""

    def __init__(self, labels: Sequence[Label], words: Words) -> None:
        self.words = words
        self.shades = 1 + max((label.chunk for label in labels), default=0)
        self.styles: dict[tuple[str, int], int] = {}
        self.labels: dict[tuple[int | str, ...], int] = {}

    def number(self, span: Span) -> int:
        label, name = label_of(span, self.words), spoken(span.name, self.words)
        style = self.styles.setdefault((label.kind, label.chunk), len(self.styles))
        return self.labels.setdefault((style, name, span.bytes, span.link, *label.texts), len(self.labels))

    def look(self, kind: str, chunk: int) -> list[str]:
        ink = INKS[kind]
        light, dark = (shade(colour, chunk, self.shades) for colour in (ink.light, ink.dark))
        return [kind, light, text_on(light), dark, text_on(dark), ink.pattern, self.words(f"ink.{kind}")]


def _boxes(spans: Sequence[Span], tables: _Tables, clock: _Clock) -> list[int]:
    code, at = [], 0
    for span in spans:
        start, end = clock.ticks(span.start), clock.ticks(span.end)
        code += [tables.number(span), start - at, end - start]
        at = end
    return code


def _moves(replay: Replay, clock: _Clock) -> list[int]:
    code, at = [], 0
    for move in sorted(replay.moves, key=lambda move: move.start):
        start, end = clock.ticks(move.start), clock.ticks(move.end)
        code += [move.chunk, move.source, move.to, start - at, end - start, int(move.reduces), move.holds]
        at = start
    return code


def _curve(curve: Curve, clock: _Clock, end: float, words: Words) -> list[Any]:
    times = [clock.ticks(time) for time in curve.times]
    gaps = [b - a for a, b in zip([0, *times], times, strict=False)]
    numbers = [_short(value) for value in curve.values]
    return [curve.name, unit_text(curve.unit, words), _short(curve.limit), _short(mean(curve, end)), gaps, numbers]


def _short(value: float) -> float | int:
    """As exact as it can be read, in few letters."""
    rounded = float(f"{value:.6g}")
    return int(rounded) if rounded.is_integer() else rounded


def _cards(replay: Replay) -> list[tuple[str, float | str]]:
    """The first numbers of the run that say something."""
    return [(key, value) for key, value in replay.facts.items() if value != ""][:_CARDS]


def _card(key: str, value: float | str, replay: Replay) -> str:
    name, text = _name(key, replay), _text(key, value, replay)
    return f"<div><dt>{name}</dt><dd {_data(key, value)}>{text}</dd></div>"


def _line(key: str, value: float | str, replay: Replay) -> str:
    name, text, full = _name(key, replay), _text(key, value, replay), escape(_full(value))
    return f'<tr><th scope="row">{name}</th><td {_data(key, value)}>{text}</td><td>{full}</td></tr>'


def _data(key: str, value: float | str) -> str:
    return f'data-key="{escape(key)}" data-value="{escape(_full(value))}"'


def _name(key: str, replay: Replay) -> str:
    return escape(fact_name(key, replay.words))


def _text(key: str, value: float | str, replay: Replay) -> str:
    return escape(fact_text(key, value, replay.unit, replay.words))


def _full(value: float | str) -> str:
    """As the command's JSON has it."""
    return value if isinstance(value, str) else json.dumps(value)
