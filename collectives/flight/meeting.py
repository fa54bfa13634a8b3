"""Where ranks meet in flight records: in a collective all members of a group, in a message its two ends.

Bare messages (PyTorch's records have them) between two ranks wait for each other in the order of their issue; what was
issued as one waits together.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .records import Flights, Flown, Number, Record

Pair = tuple[str, int, int]  # a group, and two of its ranks, the smaller first
Issue = list[Flown]
End = tuple[str, str, int, int]  # a group, what a message is to a rank, that rank, and its peer


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


@dataclass(frozen=True)
class Messages:
    """All bare messages that have not gone through.

    met: (send, receive) that wait for nothing but each other. stuck[rank]: what it cannot get past, and its peer.
    """

    met: list[tuple[Flown, Flown]]
    stuck: dict[int, tuple[Flown, int]]


def match(flights: Flights) -> Messages:
    """Match the messages that have not gone through. O(messages)."""
    queues: defaultdict[Pair, tuple[deque[Issue], deque[Issue]]] = defaultdict(lambda: (deque(), deque()))
    for message in _open_messages(flights):
        assert message.peer is not None
        low, high = sorted((message.rank, message.peer))
        queue = queues[message.group, low, high][message.rank == high]
        if queue and queue[-1][0].number[0] == message.number[0]:
            queue[-1].append(message)
        else:
            queue.append([message])
    met: list[tuple[Flown, Flown]] = []
    stuck: dict[int, tuple[Flown, int]] = {}
    for (_, low, high), (one, other) in queues.items():
        while one and other and (pair := _pair(one[0], other[0])):
            met.append(pair)
            for queue, message in ((one, pair[0]), (other, pair[1])):
                queue[0].remove(message)
                if not queue[0]:
                    queue.popleft()
        for queue, rank, peer in ((one, low, high), (other, high, low)):
            if queue:
                stuck.setdefault(rank, (queue[0][0], peer))
    return Messages(met, stuck)


def _open_messages(flights: Flights) -> Iterator[Flown]:
    """Those that have not gone through on either side: records are not of one moment.

    The n-th send to a rank is over when that has got through its n-th receive, as far as the records reach back.
    """
    through: Counter[End] = Counter()
    for record in flights.records.values():
        for message in record.operations if not record.dropped else ():
            if message.peer is not None and not message.open:
                through[message.group, message.op, message.rank, message.peer] += 1
    for record in flights.records.values():
        issued: Counter[End] = Counter()
        for message in record.operations:
            if message.peer is None:
                continue
            issued[message.group, message.op, message.rank, message.peer] += 1
            other = "recv" if message.op == "send" else "send"
            passed = through[message.group, other, message.peer, message.rank] if not record.dropped else 0
            if message.open and issued[message.group, message.op, message.rank, message.peer] > passed:
                yield message


def _pair(one: Issue, other: Issue) -> tuple[Flown, Flown] | None:
    """A message of each that are the two ends of one."""
    for mine in one:
        for theirs in other:
            if mine.op != theirs.op:
                return mine, theirs
    return None
