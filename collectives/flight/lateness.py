"""Flight records of ranks that did not come to where others waited for them, came too late, or come late each time."""

from __future__ import annotations

from collections.abc import Iterable

from ..sentence import Sentence
from .meeting import Meeting, Messages
from .records import Flights, Flown
from .words import Finding, last_of, ranks_in_words, seconds

TOGETHER = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")  # where all leave at one time
LEAST = 0.2  # seconds that the others must have waited for a rank, all in all, to call it slow
SHARE = 0.1  # of the time that the records span
PATIENCE = 1.0  # seconds that a rank may be late before it is said to be missing, where nothing has failed yet


def missing(flights: Flights, opened: list[Meeting], held: set[int]) -> list[Finding]:
    """Ranks that did not come to an operation in which others wait; those that are ``held`` up elsewhere cannot."""
    found = []
    for meeting in opened:
        waited = _waited(flights, meeting.waiting)
        if not meeting.failed and waited is not None and waited < PATIENCE:
            continue
        absent = [rank for rank in meeting.absent if rank not in held]
        for silent in (False, True):
            ranks = [rank for rank in absent if (rank not in flights.records) == silent]
            if ranks:
                said = _miss(flights, meeting, ranks, waited, silent)
                found.append(Finding("absent" if silent else "missing", said, tuple(ranks)))
    return found


def lonely(flights: Flights, messages: Messages, held: set[int]) -> list[Finding]:
    """Messages whose other end did not come, though nothing holds its rank up."""
    found = []
    for rank, (message, peer) in sorted(messages.stuck.items()):
        waited = _waited(flights, [message])
        if peer in held or (message.state != "failed" and waited is not None and waited < PATIENCE):
            continue
        record = flights.records.get(peer)
        said = Sentence(
            "flight.lonely",
            "rank {rank} waits in {message}, whose other end rank {peer} never came to; {last}",
            rank=rank,
            message=flights.called(message),
            peer=peer,
            last=Sentence("flight.silent", "it left no record") if record is None else last_of(flights, record),
        )
        found.append(Finding("missing" if record else "absent", said, (peer,)))
    return found


def inside(flights: Flights, opened: list[Meeting]) -> list[Finding]:
    """What failed although everybody came and called alike."""
    return [_failure(flights, meeting) for meeting in opened if meeting.failed]


def slow(flights: Flights, met: Iterable[Meeting]) -> list[Finding]:
    """The slow ranks, the slowest first, read off without a common clock. O(operations · ranks).

    All leave an all_reduce at one time, so who came last is in it for the shortest time: what the second shortest time
    exceeds that by, the others have waited for it.
    """
    lost, count, span = _lost(met)
    found = []
    for rank, losses in lost.items():
        total = sum(length for length, _ in losses)
        if total < max(LEAST, SHARE * span):
            continue
        worst, meeting = max(losses, key=lambda loss: loss[0])
        said = Sentence(
            "flight.slow",
            "rank {rank} is slow: the others waited {seconds} s for it in {count} of {all} operations, {worst} s of "
            "that in {operation}",
            rank=rank,
            seconds=seconds(total),
            count=sum(length > worst / 10 for length, _ in losses),
            all=count,
            worst=seconds(worst),
            operation=flights.called(meeting.entries[rank]),
        )
        found.append((total, Finding("slow", said, (rank,), wrong=False)))
    return [finding for _, finding in sorted(found, key=lambda item: -item[0])]


def _lost(met: Iterable[Meeting]) -> tuple[dict[int, list[tuple[float, Meeting]]], int, float]:
    """How long the others waited for a rank, and where; in how many operations; and the seconds that all took."""
    lost: dict[int, list[tuple[float, Meeting]]] = {}
    begin, end, count = float("inf"), 0.0, 0
    begun: set[str] = set()
    for meeting in met:
        if meeting.group not in begun:  # the first of a group waits for ranks that are still starting
            begun.add(meeting.group)
            continue
        entries = [e for e in meeting.entries.values() if e.state == "done" and e.started and e.ended]
        if len(entries) < max(2, len(meeting.entries)) or meeting.absent:
            continue
        begin, end = min(begin, *(e.started for e in entries)), max(end, *(e.ended for e in entries))
        if not entries[0].op.startswith(TOGETHER):
            continue
        count += 1
        (shortest, rank), (second, _), *_ = sorted((e.ended - e.started, e.rank) for e in entries)
        lost.setdefault(rank, []).append((second - shortest, meeting))
    return lost, count, end - begin


def _failure(flights: Flights, meeting: Meeting) -> Finding:
    first, operation = meeting.failed[0], flights.called(meeting.failed[0])
    late = [entry for entry in meeting.entries.values() if first.ended and entry.queued > first.ended]
    if late:
        ranks = tuple(entry.rank for entry in late)
        said = Sentence(
            "flight.late",
            "{ranks} came {seconds} s too late to {operation}: rank {rank} had given up",
            ranks=ranks_in_words(ranks),
            seconds=seconds(max(entry.queued for entry in late) - first.ended),
            operation=operation,
            rank=first.rank,
        )
        return Finding("late", said, ranks)
    if first.error:
        said = Sentence(
            "flight.failed",
            "{operation} failed on rank {rank} first: {error}",
            operation=operation,
            rank=first.rank,
            error=first.error,
        )
        return Finding("failed", said, (first.rank,))
    ranks = tuple(entry.rank for entry in meeting.failed)
    said = Sentence(
        "flight.stuck",
        "{operation} timed out on {ranks}, though every rank has entered it and called it alike: something inside is "
        "stuck, a link or a device",
        operation=operation,
        ranks=ranks_in_words(ranks),
    )
    return Finding("failed", said, ranks)


def _waited(flights: Flights, waiting: Iterable[Flown]) -> float | None:
    """Seconds that the first to come has waited; None where the records have no such times."""
    times = [
        (entry.ended or flights.records[entry.rank].written) - (entry.started or entry.queued)
        for entry in waiting
        if flights.records[entry.rank].written
    ]
    return max(times, default=None)


def _miss(flights: Flights, meeting: Meeting, ranks: list[int], waited: float | None, silent: bool) -> Sentence:
    absent, operation = ranks_in_words(ranks), flights.called(meeting.waiting[0])
    waiting = ranks_in_words(entry.rank for entry in meeting.waiting)
    length = "" if waited is None else Sentence("flight.for", " for {seconds} s", seconds=seconds(waited))
    if silent:
        return Sentence(
            "flight.absent",
            "{ranks} left no record, and {waiting} waited{seconds} in {operation}: what has no record was killed, "
            "stands still, or could not write",
            ranks=absent,
            operation=operation,
            waiting=waiting,
            seconds=length,
        )
    record = flights.records[ranks[0]]
    # who leaves closes its connections first, and then says so
    until = min(entry.ended or flights.records[entry.rank].written for entry in meeting.waiting) + PATIENCE
    if record.left and record.left < until:
        return Sentence(
            "flight.left",
            "{ranks} left the group without {operation}, in which {waiting} waited{seconds}; {last}",
            ranks=absent,
            operation=operation,
            waiting=waiting,
            seconds=length,
            last=last_of(flights, record),
        )
    if meeting.failed:
        return Sentence(
            "flight.missing",
            "{ranks} never entered {operation}, in which {waiting} waited{seconds}; {last}",
            ranks=absent,
            operation=operation,
            waiting=waiting,
            seconds=length,
            last=last_of(flights, record),
        )
    return Sentence(
        "flight.not_yet",
        "{ranks} did not enter {operation} so far, in which {waiting} waited{seconds}; {last}",
        ranks=absent,
        operation=operation,
        waiting=waiting,
        seconds=length,
        last=last_of(flights, record),
    )
