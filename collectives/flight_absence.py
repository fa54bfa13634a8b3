"""Flight records of ranks that did not come, or came too late, to where others waited for them. Needs no torch."""

from __future__ import annotations

from .flight_finding import Finding
from .flight_log import Flights
from .flight_meeting import Meeting
from .flight_messages import Messages
from .flight_words import last_of, ranks_in_words, seconds
from .sentence import Sentence

PATIENCE = 1.0  # seconds that a rank may be late before it is said to be missing, where nothing has failed yet


def missing(flights: Flights, opened: list[Meeting], held: set[int]) -> list[Finding]:
    """Ranks that did not come to an operation in which others wait; those that are ``held`` up elsewhere cannot."""
    found = []
    for meeting in opened:
        waited = _waited(flights, meeting)
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
        if peer in held:
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
    found = []
    for meeting in opened:
        if not meeting.failed:
            continue
        first = meeting.failed[0]
        late = [e.rank for e in meeting.entries.values() if first.ended and e.queued > first.ended]
        words = {"operation": flights.called(first), "rank": first.rank}
        if late:
            delay = seconds(max(meeting.entries[rank].queued for rank in late) - first.ended)
            said = Sentence(
                "flight.late",
                "{ranks} came {seconds} s too late to {operation}: rank {rank} had given up",
                ranks=ranks_in_words(late),
                seconds=delay,
                **words,
            )
            found.append(Finding("late", said, tuple(late)))
        elif first.error:
            said = Sentence(
                "flight.failed", "{operation} failed on rank {rank} first: {error}", error=first.error, **words
            )
            found.append(Finding("failed", said, (first.rank,)))
        else:
            said = Sentence(
                "flight.stuck",
                "{operation} timed out on {ranks}, though every rank has entered it and called it alike: something "
                "inside is stuck, a link or a device",
                ranks=ranks_in_words(entry.rank for entry in meeting.failed),
                **words,
            )
            found.append(Finding("failed", said, tuple(entry.rank for entry in meeting.failed)))
    return found


def _waited(flights: Flights, meeting: Meeting) -> float | None:
    """Seconds that the first to come has waited; None where the records have no such times."""
    times = [
        (entry.ended or flights.records[entry.rank].written) - (entry.started or entry.queued)
        for entry in meeting.waiting
        if flights.records[entry.rank].written
    ]
    return max(times, default=None)


def _miss(flights: Flights, meeting: Meeting, ranks: list[int], waited: float | None, silent: bool) -> Sentence:
    words: dict[str, object] = {
        "ranks": ranks_in_words(ranks),
        "operation": flights.called(meeting.waiting[0]),
        "waiting": ranks_in_words(entry.rank for entry in meeting.waiting),
        "seconds": "" if waited is None else Sentence("flight.for", " for {seconds} s", seconds=seconds(waited)),
    }
    if silent:
        return Sentence(
            "flight.absent",
            "{ranks} left no record, and {waiting} waited{seconds} in {operation}: what has no record was killed, or "
            "could not write",
            **words,
        )
    record = flights.records[ranks[0]]
    words["last"] = last_of(flights, record)
    # who leaves closes its connections first, and then says so
    until = min((e.ended or flights.records[e.rank].written for e in meeting.waiting), default=0.0) + PATIENCE
    if record.left and record.left < until:
        return Sentence(
            "flight.left",
            "{ranks} left the group without {operation}, in which {waiting} waited{seconds}; {last}",
            **words,
        )
    if meeting.failed:
        return Sentence(
            "flight.missing", "{ranks} never entered {operation}, in which {waiting} waited{seconds}; {last}", **words
        )
    return Sentence(
        "flight.not_yet",
        "{ranks} did not enter {operation} so far, in which {waiting} waited{seconds}; {last}",
        **words,
    )
