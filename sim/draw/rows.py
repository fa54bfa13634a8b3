"""The rows of a Gantt chart: ranks from top to bottom, of each its streams, of each as many lanes as overlap."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field

from collectives.span import Span

from ..replay import Replay

_ORDER = ("operation", "launch", "compute", "send", "recv", "reduce")


@dataclass(frozen=True, slots=True)
class Row:
    """Spans that follow one another. main: what ranks are there for; where there is such a row, others are thin."""

    rank: int
    stream: str
    main: bool
    spans: list[Span] = field(default_factory=list)


def rows_of(replay: Replay) -> list[Row]:
    """The rows in drawing order; the spans of each in time order. A rank without spans has one empty row.

    Messages that take no time are arrows of a trace, not boxes. The launch is in the rank's first row: all wait for it.
    """
    streams: defaultdict[tuple[int, str], list[Span]] = defaultdict(list)
    for span in replay.spans:
        if span.end > span.start or not span.message:
            streams[span.rank, span.stream].append(span)
    for rank in [rank for rank, stream in streams if stream == "launch"]:
        others = [stream for other, stream in streams if other == rank and stream != "launch"]
        if others:
            streams[rank, min(others, key=_place)] += streams.pop((rank, "launch"))
    computes = any(stream == "compute" for _, stream in streams)
    for rank in set(range(len(replay.names))) - {rank for rank, _ in streams}:
        streams[rank, "compute"] = []
    rows: list[Row] = []
    for rank, stream in sorted(streams, key=lambda key: (key[0], _place(key[1]))):
        rows += _lanes(Row(rank, stream, stream == "compute" or not computes), streams[rank, stream])
    return rows


def end_of(replay: Replay) -> float:
    """When the last thing ends; 0 for a run in which nothing happens."""
    ends = [span.end for span in replay.spans] + [move.end for move in replay.moves]
    return max(ends, default=0.0)


def name_of(replay: Replay, rank: int) -> str:
    return replay.names[rank] if rank < len(replay.names) else replay.words("rank", rank=rank)


def _lanes(row: Row, spans: list[Span]) -> list[Row]:
    lanes = [row]
    for span in sorted(spans, key=lambda span: (span.start, span.end)):
        for lane in lanes:
            if not lane.spans or lane.spans[-1].end <= span.start + 1e-9 * abs(span.end):
                break
        else:
            lane = Row(row.rank, row.stream, row.main)
            lanes.append(lane)
        lane.spans.append(span)
    return lanes


def _place(stream: str) -> tuple[int, str, int]:
    word, number = stream.partition(" ")[0], re.search(r"\d+$", stream)
    return _ORDER.index(word) if word in _ORDER else len(_ORDER), word, int(number[0]) if number else 0
