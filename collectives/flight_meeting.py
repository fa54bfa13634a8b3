"""One operation of a group, as all its members know it: who came, who did not, and how far they got. Needs no torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .flight_log import Flights, Flown, Number, Record


@dataclass(frozen=True)
class Meeting:
    """entries: what the members called as this operation of the group, by rank. absent: members that never came.

    A member that came and has forgotten it, its record being short, is neither.
    """

    group: str
    number: Number
    entries: dict[int, Flown]
    absent: tuple[int, ...]

    @property
    def open(self) -> bool:
        """Whether it keeps somebody. Records are not of one moment: what one rank has got through, after all have come
        and called alike, the others are getting through as well."""
        passes = not self.absent and len(self.said) == 1 and any(e.state == "done" for e in self.entries.values())
        return bool(self.failed or (self.waiting and not passes))

    @property
    def waiting(self) -> list[Flown]:
        """Who has not got through it, by rank; where somebody never came, nobody has."""
        entries = [entry for _, entry in sorted(self.entries.items())]
        return [entry for entry in entries if entry.open or (self.absent and entry.state == "over")]

    @property
    def failed(self) -> list[Flown]:
        """On whom it failed, the first first."""
        return sorted((e for e in self.entries.values() if e.state == "failed"), key=lambda e: (e.ended, e.rank))

    @property
    def said(self) -> dict[tuple[str, str], list[int]]:
        """What was called → by whom, most first. The algorithm counts where all know theirs."""
        all_know = all(entry.algorithm for entry in self.entries.values())
        callers: dict[tuple[str, str], list[int]] = {}
        for rank, entry in sorted(self.entries.items()):
            callers.setdefault((entry.said, entry.algorithm if all_know else ""), []).append(rank)
        return dict(sorted(callers.items(), key=lambda item: -len(item[1])))


def meetings(flights: Flights) -> Iterator[Meeting]:
    """Every collective of every group, in order within a group. O(operations · members)."""
    for group, members in flights.groups.items():
        rows: dict[Number, dict[int, Flown]] = {}
        lasts: dict[int, Number] = {}
        for rank in members:
            for entry in flights.records[rank].of(group) if rank in flights.records else ():
                rows.setdefault(entry.number, {})[rank] = entry
                lasts[rank] = entry.number
        for number, entries in sorted(rows.items()):
            came = min(entry.queued for entry in entries.values())
            absent = [
                rank
                for rank in members
                if rank not in entries
                and (rank not in lasts or lasts[rank] < number)
                and not _may_have_forgotten(flights.records.get(rank), came)
            ]
            yield Meeting(group, number, entries, tuple(absent))


def first_open(met: Iterable[Meeting]) -> list[Meeting]:
    """Of each group the first operation that somebody has not got through: what follows it is a consequence."""
    found: dict[str, Meeting] = {}
    for meeting in met:
        if meeting.open:
            found.setdefault(meeting.group, meeting)
    return list(found.values())


def _may_have_forgotten(record: Record | None, since: float) -> bool:
    """Whether a record is too short to tell what its rank did at that time."""
    return record is not None and record.dropped > 0 and bool(record.operations) and record.operations[0].queued > since
