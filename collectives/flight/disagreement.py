"""Flight records of ranks that do not call the same: what they call, in what that differs, and how to mend it."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..sentence import Sentence
from .meeting import Meeting, Messages
from .records import Flights
from .words import Finding, ranks_in_words

_SAME_SIZE = ("all_reduce", "broadcast", "reduce")  # every rank's tensor has as many elements


def disagreements(flights: Flights, among: Iterable[Meeting]) -> list[Finding]:
    """The first operation of each group that its members did not call alike.

    All may get through one all the same: with other shapes rightly, if the elements are as many; with other reductions
    to a wrong result.
    """
    found: dict[str, Finding] = {}
    for meeting in among:
        kind = _difference(meeting) if len(meeting.said) > 1 else ""
        if not kind or meeting.group in found:
            continue
        if not meeting.open and kind == "shape" and not _differ_in_size(meeting):
            continue
        said = _order(flights, meeting) if kind == "operation" else None
        kind = "order" if said else kind
        said = said or Sentence(
            "flight.disagree",
            "the ranks disagree on operation {seq} of group {group}: {callers}; {mend}",
            seq=meeting.number[0],
            group=meeting.group,
            callers=_callers(meeting),
            mend=_mend(kind),
            kind=kind,
        )
        odd = tuple(rank for ranks in list(meeting.said.values())[1:] for rank in ranks)
        found[meeting.group] = Finding(kind, said, odd)
    return list(found.values())


def sizes(messages: Messages) -> list[Finding]:
    """Messages whose two ends differ."""
    found = []
    for pair in messages.met:
        send, receive = sorted(pair, key=lambda message: message.op, reverse=True)
        if (send.shape, send.dtype) != (receive.shape, receive.dtype):
            said = Sentence(
                "flight.message_sizes",
                "rank {rank} stands in {send}, but rank {peer} in {receive}: both tensors must have as many elements "
                "of the same dtype",
                rank=send.rank,
                send=send.said,
                peer=receive.rank,
                receive=receive.said,
            )
            found.append(Finding("shape", said, (send.rank, receive.rank)))
    return found[:1]


def _differ_in_size(meeting: Meeting) -> bool:
    entries = meeting.entries.values()
    return all(entry.op in _SAME_SIZE for entry in entries) and len({math.prod(e.shape or ()) for e in entries}) > 1


def _order(flights: Flights, meeting: Meeting) -> Sentence | None:
    """Two calls that some ranks make the other way round, where the records reach far enough to show both."""
    (ours, us), (theirs, them) = list(meeting.said.items())[:2]
    for ranks, called, other in ((them, theirs, ours), (us, ours, theirs)):
        for rank in ranks:
            later = (e for e in flights.records[rank].of(meeting.group) if e.number > meeting.number)
            if any(entry.said == other[0] for entry in later):
                others = set(meeting.entries) - set(ranks)
                return Sentence(
                    "flight.order",
                    "the order of calls differs at number {seq} of group {group}: {ranks} called {first} and then "
                    "{second}, {others} the other way round; make the calls in one order on every rank",
                    ranks=ranks_in_words(ranks),
                    first=called[0],
                    second=other[0],
                    others=ranks_in_words(others),
                    seq=meeting.number[0],
                    group=meeting.group,
                )
    return None


def _callers(meeting: Meeting) -> Sentence:
    """``ranks 0, 2 call all_reduce of 3 float32, SUM; rank 1 calls …`` of a meeting whose members disagree."""
    different = len({algorithm for _, algorithm in meeting.said}) > 1
    shown: Sentence | None = None
    for (said, algorithm), ranks in reversed(meeting.said.items()):
        using = Sentence("flight.using", " with {algorithm}", algorithm=algorithm) if different else ""
        caller = Sentence(
            "flight.caller",
            "{ranks}: {said}{using}{at}",
            ranks=ranks_in_words(ranks),
            said=said,
            using=using,
            at=meeting.entries[ranks[0]].at,
        )
        shown = caller if shown is None else Sentence("flight.callers", "{first}; {rest}", first=caller, rest=shown)
    assert shown is not None
    return shown


def _difference(meeting: Meeting) -> str:
    """In what the calls differ: ``operation``, ``dtype``, ``shape``, ``algorithm``, or other ``arguments``."""
    entries = list(meeting.entries.values())
    if len({entry.op for entry in entries}) > 1:
        return "operation"
    if len({entry.dtype for entry in entries}) > 1:
        return "dtype"
    if len({entry.shape for entry in entries}) > 1:
        return "shape"
    return "algorithm" if len({said for said, _ in meeting.said}) == 1 else "arguments"


def _mend(kind: str) -> Sentence:
    """What to do about a difference."""
    if kind == "operation":
        return Sentence("flight.mend_operation", "some rank leaves a call out, or makes its calls in another order")
    if kind == "dtype":
        return Sentence("flight.mend_dtype", "give tensors of one dtype on every rank")
    if kind == "shape":
        return Sentence("flight.mend_shape", "give tensors of one shape on every rank")
    if kind == "algorithm":
        return Sentence("flight.mend_algorithm", "use one algorithm on every rank")
    return Sentence("flight.mend_arguments", "pass the same arguments on every rank")
