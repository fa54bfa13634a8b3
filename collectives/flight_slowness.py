"""Which rank the others wait for although nothing is wrong, read off flight records without a common clock.

Needs no torch. All leave an all_reduce at one time, so who came last is in it for the shortest time: what the second
shortest time exceeds that by, the others have waited for it.
"""

from __future__ import annotations

from collections.abc import Iterable

from .flight_finding import Finding
from .flight_log import Flights
from .flight_meeting import Meeting
from .flight_words import seconds
from .sentence import Sentence

TOGETHER = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")  # where all leave at one time
LEAST = 0.2  # seconds that the others must have waited for a rank, all in all, to call it slow
SHARE = 0.1  # of the time that the records span


def slow(flights: Flights, met: Iterable[Meeting]) -> list[Finding]:
    """The slow ranks, the slowest first. O(operations · ranks)."""
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
    found = []
    for rank, losses in lost.items():
        total = sum(length for length, _ in losses)
        if total < max(LEAST, SHARE * (end - begin)):
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
