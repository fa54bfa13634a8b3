"""A measured timeline and a predicted one, laid over each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from collectives.readers.trace_file import Trace
from collectives.span import Span

from .replay import Replay
from .units import show_time


@dataclass(frozen=True)
class Operation:
    """One operation of a trace: its spans from 0 on, the operation's own left out."""

    name: str
    spans: tuple[Span, ...]

    @property
    def seconds(self) -> float:
        return max((span.end for span in self.spans), default=0.0)

    def bytes_by_link(self) -> dict[str, int]:
        carried: dict[str, int] = {}
        for span in self.spans:
            if span.link and span.stream.startswith("send"):
                carried[span.link] = carried.get(span.link, 0) + span.bytes
        return carried


def operations(trace: Trace) -> list[Operation]:
    """The operations of a trace: what lies inside the k-th ``operation`` span of each rank; without any, all of it.

    An operation begins when the last rank enters it: before, the others wait for that one, not for the network.
    """
    wholes: dict[int, list[Span]] = {}
    for span in trace.spans:
        if span.stream == "operation":
            wholes.setdefault(span.rank, []).append(span)
    parts = [span for span in trace.spans if span.stream != "operation"]
    if not wholes:
        return [Operation("all", _from_zero(parts, min(span.start for span in parts)))]
    found = []
    for k in range(min(map(len, wholes.values()))):
        mine = {rank: spans[k] for rank, spans in wholes.items()}
        inside = [s for s in parts if s.rank in mine and mine[s.rank].start <= s.start <= mine[s.rank].end]
        began = max(span.start for span in mine.values())
        found.append(Operation(next(iter(mine.values())).name, _from_zero(inside, began)))
    return [operation for operation in found if operation.spans]


def _from_zero(spans: Iterable[Span], origin: float) -> tuple[Span, ...]:
    return tuple(
        replace(span, start=max(0.0, span.start - origin), end=max(0.0, span.end - origin), message="")
        for span in spans
    )


def alike(measured: Sequence[Operation], predicted: Operation) -> list[Operation]:
    """The measured operations that moved the same bytes over the same links."""
    wanted = predicted.bytes_by_link()
    return [operation for operation in measured if operation.bytes_by_link() == wanted]


def overlay(measured: Operation, predicted: Operation) -> Replay:
    """Two rows a rank: above what was measured, below what was predicted."""
    ranks = sorted({span.rank for span in (*measured.spans, *predicted.spans)})
    rows = {rank: 2 * i for i, rank in enumerate(ranks)}
    spans = [replace(span, rank=rows[span.rank]) for span in measured.spans]
    spans += [replace(span, rank=rows[span.rank] + 1) for span in predicted.spans]
    facts = compare(measured, predicted)
    title = (
        f"{measured.name}: measured {show_time(measured.seconds)}, predicted {show_time(predicted.seconds)} "
        f"({facts['error']:+.1%})"
    )
    names = [f"rank {rank} {kind}" for rank in ranks for kind in ("measured", "predicted")]
    return Replay(title, facts, names, spans)


def compare(measured: Operation, predicted: Operation) -> dict[str, float | str]:
    """The numbers: seconds, and the error of the prediction as a share of what was measured."""
    return {
        "operation": measured.name,
        "measured_s": measured.seconds,
        "predicted_s": predicted.seconds,
        "error": predicted.seconds / measured.seconds - 1 if measured.seconds else 0.0,
    }
