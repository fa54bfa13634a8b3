"""What a recorded program would have done had nothing been buffered, and how many rounds it took. Needs no torch.

::

    rank 0   post send ──┐             wait ──▶ clock 1        a message moves when both ends have posted it,
    rank 1          post receive, wait ───────▶ clock 1        in round 1 + the later of the two clocks

The ranks do again what their log says, each as far as it gets: a wait lets its rank go on only when its message has
moved. So a program that went through because its backend had room for a message shows its deadlock.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass

from .log import VERBS, Log, Operation
from .sentence import Sentence
from .waits import Wait, find_cycle, in_words

Key = tuple[int, int]  # rank and seq: an operation


@dataclass(frozen=True)
class Rendezvous:
    """deadlock: which ranks wait for each other in a cycle, where; None if none do.

    round_of[rank, seq]: the round in which a message moves, from 1 on; both ends have the same. A message that never
    moves has none, nor has a collective: it only makes its ranks meet.
    """

    deadlock: Sentence | None
    round_of: dict[Key, int]

    @property
    def rounds(self) -> int:
        """The longest chain of messages of which each was posted after its rank had waited for the one before."""
        return max(self.round_of.values(), default=0)


def replay(log: Log) -> Rendezvous:
    """Run a log under the strictest rule that a network may have. O(operations × ranks in a collective).

    Messages pair up as in the log, a receive from anybody with the peer that came. A log that ended early is replayed
    as far as it goes: a rank that ended or was busy elsewhere makes no deadlock.
    """
    run = _Run(log)
    run.advance()
    cycle = find_cycle(run.waits())
    return Rendezvous(in_words(cycle) if cycle else None, run.round_of())


class _Run:
    """Every rank, as far as it has got."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.operations = {(rank, o.seq): o for rank, operations in log.operations.items() for o in operations}
        self.ends = dict(_ends(log))
        self.at: defaultdict[int, int] = defaultdict(int)  # how many of its events a rank has got through
        self.clock: defaultdict[int, int] = defaultdict(int)
        self.posted: dict[Key, int] = {}  # the rank's clock at that moment

    def advance(self) -> None:
        ready = deque(self.log.events)
        while ready:
            rank = ready.popleft()
            events = self.log.events.get(rank, [])
            while self.at[rank] < len(events):
                seq, state = events[self.at[rank]]
                key = rank, seq
                if state == "posted":
                    self.posted[key] = self.clock[rank]
                    ready.extend(other for other, _ in self.ends.get(key, ()) if other != rank)
                elif state == "waiting":
                    moved = self.moved(key)
                    if moved is None:
                        break
                    self.clock[rank] = max(self.clock[rank], moved)
                self.at[rank] += 1

    def moved(self, key: Key) -> int | None:
        """What the operation lifts the clocks of its ends to; None while one of them is missing."""
        ends = self.ends.get(key, ())
        if not ends or not all(end in self.posted for end in ends):
            return None
        return max(self.posted[end] for end in ends) + (1 if self.operations[key].is_message else 0)

    def round_of(self) -> dict[Key, int]:
        rounds = {key: self.moved(key) for key in self.posted if self.operations[key].is_message}
        return {key: moved for key, moved in rounds.items() if moved is not None}

    def waits(self) -> dict[int, Wait]:
        """Who stands still for whom, of those that stand still for good because of one another."""
        stuck: dict[int, Operation] = {}
        for rank, events in self.log.events.items():
            if self.at[rank] < len(events):
                stuck[rank] = self.operations[rank, events[self.at[rank]][0]]
        awaited = {rank: self.awaited(operation) for rank, operation in stuck.items()}
        while free := [rank for rank in stuck if not any(peer in stuck for peer in awaited[rank])]:
            for rank in free:  # it waits for ranks that have ended, or were busy with something else
                del stuck[rank]
        return {
            rank: Wait(
                rank,
                next(peer for peer in awaited[rank] if peer in stuck),
                VERBS.get(operation.op, operation.op),
                where=operation.where,
            )
            for rank, operation in stuck.items()
        }

    def awaited(self, operation: Operation) -> list[int]:
        if operation.peer is not None:
            return [operation.peer]
        return [end[0] for end in self.ends.get((operation.rank, operation.seq), ()) if end not in self.posted]


def _ends(log: Log) -> Iterator[tuple[Key, list[Key]]]:
    """Each operation with all that must be posted before it happens; seq 0 stands for what a rank never calls."""
    pairs, _ = log.pairs()
    for send, receive, _ in pairs:
        both = [(send.rank, send.seq), (receive.rank, receive.seq)]
        yield from ((end, both) for end in both)
    collectives = [o for operations in log.operations.values() for o in operations if o.is_collective]
    groups = {collective.group: collective.members or tuple(log.operations) for collective in collectives}
    for group, members in groups.items():
        calls = {rank: log.entered(rank, group) for rank in members}
        for k in range(max(len(called) for called in calls.values())):
            row = [(rank, called[k].seq if k < len(called) else 0) for rank, called in calls.items()]
            yield from ((end, row) for end in row)
