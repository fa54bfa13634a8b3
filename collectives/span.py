"""One record of what happened and when, for real runs and simulated ones alike; and the trace file to look at it.

The file is Chrome's JSON trace format, which https://ui.perfetto.dev and chrome://tracing open: a process a rank, a
thread a stream, a slice a span, and an arrow from each send to the receive that takes it.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from .atomic import write_text


@dataclass(frozen=True, slots=True)
class Span:
    """Something that ``rank`` did from ``start`` to ``end`` (seconds, on one clock for all ranks).

    stream: what does one thing after another, for instance ``send 0`` (of channel 0); spans of one stream that overlap
    are drawn in lanes of their own. bytes: the data it was about. link: ``"0->1"`` for a message between ranks.
    message: what a send and its receive have in common, for the arrow between them; empty for no arrow.
    """

    rank: int
    stream: str
    name: str
    start: float
    end: float
    bytes: int = 0
    link: str = ""
    message: str = ""

    def moved(self, seconds: float) -> Span:
        """The same on a clock that is ``seconds`` ahead."""
        return replace(self, start=self.start + seconds, end=self.end + seconds)


class Counter(Protocol):
    """A value that changes in steps, for instance what a link carries: ``values[i]`` from ``times[i]`` on."""

    @property
    def name(self) -> str: ...
    @property
    def unit(self) -> str: ...
    @property
    def times(self) -> Sequence[float]: ...
    @property
    def values(self) -> Sequence[float]: ...


Event = dict[str, Any]


def chrome_trace(
    spans: Iterable[Span],
    names: Mapping[int, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    counters: Sequence[Counter] = (),
) -> dict[str, Any]:
    """The spans as a Chrome trace; times start at 0.

    Args:
        names: how to call the ranks; ``rank 3`` by default.
        metadata: kept with the trace as it is.
        counters: curves, drawn below the ranks.
    """
    ordered = sorted(spans, key=lambda span: (span.rank, span.start, -span.end))
    origin = min((span.start for span in ordered), default=0.0)
    threads = _Threads()
    slices: list[Event] = []
    ends: defaultdict[str, list[tuple[Span, Event]]] = defaultdict(list)
    for span in ordered:
        start, end = (round((moment - origin) * 1e9) for moment in (span.start, span.end))
        event = {
            "ph": "X",
            "name": span.name,
            "cat": span.stream.partition(" ")[0],
            "pid": span.rank,
            "tid": threads.lane(span.rank, span.stream, start, max(start, end)),
            "ts": start / 1000,
            "dur": max(0, end - start) / 1000,
            "args": {"bytes": span.bytes, **({"link": span.link} if span.link else {})},
        }
        slices.append(event)
        if span.message:
            ends[span.message].append((span, event))
    arrows = [arrow for number, pair in enumerate(ends.values(), 1) for arrow in _arrow(number, pair)]
    below = max((span.rank for span in ordered), default=-1) + 1
    curves = [event for counter in counters for event in _counter(counter, below, origin)]
    if curves:
        curves = [
            _meta("process_name", below, name="counters"),
            _meta("process_sort_index", below, sort_index=below),
            *curves,
        ]
    return {
        "traceEvents": [*threads.events(names or {}), *slices, *arrows, *curves],
        "displayTimeUnit": "ns",
        "metadata": dict(metadata or {}),
    }


def write(
    path: str | os.PathLike[str],
    spans: Iterable[Span],
    names: Mapping[int, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    counters: Sequence[Counter] = (),
) -> None:
    """Write the spans as a Chrome trace, all or nothing."""
    write_text(path, json.dumps(chrome_trace(spans, names, metadata, counters), separators=(",", ":")) + "\n")


class _Threads:
    """Numbers threads: one a lane of a stream, so that the slices of a thread never overlap."""

    def __init__(self) -> None:
        self.busy_until: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
        self.numbers: dict[tuple[int, str, int], int] = {}

    def lane(self, rank: int, stream: str, start: int, end: int) -> int:
        """The thread for a slice; slices come in order of their start."""
        lanes = self.busy_until[rank, stream]
        free = next((i for i, until in enumerate(lanes) if until <= start), len(lanes))
        lanes[free : free + 1] = [end]
        return self.numbers.setdefault((rank, stream, free), len(self.numbers) + 1)

    def events(self, names: Mapping[int, str]) -> list[Event]:
        """The names of processes and threads."""
        events: list[Event] = []
        for rank in sorted({rank for rank, _, _ in self.numbers}):
            events.append(_meta("process_name", rank, name=names.get(rank, f"rank {rank}")))
            events.append(_meta("process_sort_index", rank, sort_index=rank))
        for place, ((rank, stream, lane), number) in enumerate(sorted(self.numbers.items())):
            name = f"{stream} lane {lane}" if lane else stream
            events.append(_meta("thread_name", rank, number, name=name))
            events.append(_meta("thread_sort_index", rank, number, sort_index=place))
        return events


def _meta(kind: str, rank: int, thread: int | None = None, **args: Any) -> Event:
    return {"ph": "M", "name": kind, "pid": rank, **({"tid": thread} if thread is not None else {}), "args": args}


def _counter(counter: Counter, process: int, origin: float) -> list[Event]:
    return [
        {
            "ph": "C",
            "name": counter.name,
            "pid": process,
            "ts": round((time - origin) * 1e9) / 1000,
            "args": {counter.unit or "value": value},
        }
        for time, value in zip(counter.times, counter.values, strict=True)
    ]


def _arrow(number: int, ends: list[tuple[Span, Event]]) -> list[Event]:
    """From the start of the send to just before the end of the receive, both inside their slices."""
    if len(ends) != 2:
        return []  # the other end was not recorded
    (first, event), (second, other) = ends
    if not first.link.startswith(f"{first.rank}->"):
        event, other, first, second = other, event, second, first
    common = {"cat": "message", "name": "message", "id": number}
    arrives = max(other["ts"], round(other["ts"] + other["dur"] - 0.001, 3))
    return [
        {"ph": "s", **common, "pid": first.rank, "tid": event["tid"], "ts": event["ts"]},
        {"ph": "f", "bp": "e", **common, "pid": second.rank, "tid": other["tid"], "ts": arrives},
    ]
