"""What is written down of a pipeline: the same words for a run on a clock and a run on real ranks."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

from collectives.span import Span

from .schedule import LETTERS, Action
from .stages import Transfer

WAITS = {"sync", "optimizer"}  # spans of stream ``compute`` that are no action


def action_name(action: Action, chunks: int) -> str:
    """``F 3``, and where a rank has several chunks ``F 3 c1``."""
    name = f"{LETTERS[type(action)]} {action.microbatch}"
    return f"{name} c{action.chunk}" if chunks > 1 else name


def end_of(transfer: Transfer, stream: str, start: float, end: float, nbytes: int = 0, label: str = "") -> Span:
    """One end of a message: ``stream`` is ``send`` or ``recv``.

    label: of one of several runs in a trace, so that arrows do not go from one to another.
    """
    rank = transfer.source if stream == "send" else transfer.to
    name = f"{transfer.kind} {transfer.microbatch}"
    link = f"{transfer.source}->{transfer.to}"
    return Span(rank, stream, name, start, end, nbytes, link, f"{label}{name} {transfer.stage}")


def bubble_fraction(spans: Iterable[Span]) -> float:
    """The part of the ranks' time, in one step, in which they wait: 1 - busy / (ranks · the longest rank's span).

    A rank's span is from its first start to its last end. What the simulator calls by the same name.

    Raises:
        ValueError: no span of an action.
    """
    actions: defaultdict[int, list[Span]] = defaultdict(list)
    for span in spans:
        if span.stream == "compute" and span.name not in WAITS:
            actions[span.rank].append(span)
    if not actions:
        raise ValueError("spans: none is of a pipeline's action; give those of a step that was recorded")
    busy = math.fsum(span.end - span.start for mine in actions.values() for span in mine)
    longest = max(max(s.end for s in mine) - min(s.start for s in mine) for mine in actions.values())
    return 1 - busy / (len(actions) * longest)
