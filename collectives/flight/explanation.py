"""What the flight records of all ranks say together: who is missing, who waits for whom, what disagrees."""

from __future__ import annotations

from ..log import VERBS
from ..sentence import Sentence
from ..waits import Wait, find_cycle, in_words
from .disagreement import disagreements, sizes
from .lateness import inside, lonely, missing, slow
from .meeting import Meeting, Messages, first_open, match, meetings
from .records import Flights, Flown, Record
from .words import Finding, last_of, ranks_in_words, seconds


def explain(flights: Flights) -> list[Finding]:
    """All that is to be said, what began it first; empty if all is well. O(operations · ranks)."""
    met, messages = list(meetings(flights)), match(flights)
    opened = first_open(met)
    gone = [*_raised(flights), *_died(flights)]
    found = gone + disagreements(flights, opened) + sizes(messages) + _cycle(flights, opened, messages)
    if not gone:  # else whoever is not there had no time to come
        held = {entry.rank for meeting in opened for entry in meeting.waiting} | messages.stuck.keys()
        found += missing(flights, opened, held) + lonely(flights, messages, held)
    found = found or inside(flights, opened) or disagreements(flights, met) or _failed(flights)
    found += slow(flights, met)
    silent = set(range(flights.size)) - flights.records.keys() - {rank for f in found for rank in f.ranks}
    if silent:
        said = Sentence(
            "flight.no_record", "{ranks} left no record, so they are not judged", ranks=ranks_in_words(silent)
        )
        found.append(Finding("unknown", said, tuple(sorted(silent)), wrong=False))
    return found + [Finding("unreadable", said, wrong=False) for said in flights.unreadable]


def _raised(flights: Flights) -> list[Finding]:
    """Ranks whose program ended with an error of its own."""
    found = []
    for rank, record in sorted(flights.records.items(), key=lambda item: item[1].written):
        if record.why == "raised":
            said = Sentence(
                "flight.raised",
                "rank {rank} failed by itself: {error}; {last}",
                rank=rank,
                error=record.error,
                last=last_of(flights, record),
            )
            found.append(Finding("raised", said, (rank,)))
    return found


def _failed(flights: Flights) -> list[Finding]:
    """The first failure, where no operation shows it."""
    failed = [record for record in flights.records.values() if record.why == "failure"]
    if not failed:
        return []
    first = min(failed, key=lambda record: record.written)
    said = Sentence("flight.failed_first", "rank {rank} failed first: {error}", rank=first.rank, error=first.error)
    return [Finding("failed", said, (first.rank,))]


def _died(flights: Flights) -> list[Finding]:
    """Ranks that closed a connection without a word, in the order in which others noticed."""
    witnesses: dict[int, list[Flown]] = {}
    for record in flights.records.values():
        for entry in record.operations:
            for stand in entry.stands if entry.state == "failed" and entry.cause == "closed" else ():
                if _is_silent(flights.records.get(stand.peer), entry):
                    witnesses.setdefault(stand.peer, []).append(entry)
    found: list[Finding] = []
    begun = 0.0
    for rank, entries in sorted(witnesses.items(), key=lambda item: min(entry.ended for entry in item[1])):
        first = min(entries, key=lambda entry: entry.ended)
        operation, others = flights.called(first), ranks_in_words({entry.rank for entry in entries})
        if not found:
            begun = first.ended
            said = Sentence(
                "flight.died",
                "rank {rank} died first: in {operation} its connection to {witnesses} closed without a word",
                rank=rank,
                operation=operation,
                witnesses=others,
            )
        else:
            said = Sentence(
                "flight.died_later",
                "rank {rank} died, too, {seconds} s later: in {operation} its connection to {witnesses} closed",
                rank=rank,
                seconds=seconds(first.ended - begun),
                operation=operation,
                witnesses=others,
            )
        found.append(Finding("died", said, (rank,)))
    return found


def _is_silent(record: Record | None, entry: Flown) -> bool:
    """Whether a rank that is no longer there in an operation has not said why: it neither failed in it nor left."""
    if record is None:
        return True
    failed = any(o.state == "failed" and o.group == entry.group for o in record.operations)
    return not failed and not record.left and record.written < entry.ended


def _cycle(flights: Flights, opened: list[Meeting], messages: Messages) -> list[Finding]:
    """Ranks that wait for each other in a circle, each in an operation that the next has not come to."""
    stuck: dict[int, list[tuple[Flown, int]]] = {}
    for meeting in opened:
        for entry in meeting.waiting:
            stuck.setdefault(entry.rank, []).extend((entry, peer) for peer in meeting.absent)
    for message, peer in messages.stuck.values():
        stuck.setdefault(message.rank, []).append((message, peer))
    while free := [rank for rank, awaited in stuck.items() if not any(peer in stuck for _, peer in awaited)]:
        for rank in free:  # it waits for ranks that wait for nobody
            del stuck[rank]
    held = {rank: next((e, peer) for e, peer in awaited if peer in stuck) for rank, awaited in stuck.items()}
    cycle = find_cycle(
        {rank: Wait(rank, peer, VERBS.get(e.op, e.op), where=e.where) for rank, (e, peer) in held.items()}
    )
    if not cycle:
        return []
    ranks = tuple(wait.rank for wait in cycle)
    if all(held[rank][0].is_message for rank in ranks):
        return [Finding("cycle", in_words(cycle), ranks)]
    links = [
        Sentence(
            "flight.link",
            "rank {rank} stands in {operation} and waits for rank {peer}",
            rank=wait.rank,
            operation=flights.called(held[wait.rank][0]),
            peer=wait.peer,
        )
        for wait in cycle
    ]
    said = Sentence(
        "flight.cycle",
        "{ranks} wait for each other: {links}; make the calls in one order on every rank",
        ranks=ranks_in_words(ranks),
        links=tuple(links),
    )
    return [Finding("cycle", said, ranks)]
