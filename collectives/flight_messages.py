"""Bare sends and receives in flight records (PyTorch's have them): which never met. Needs no torch.

Messages between two ranks wait for each other in the order of their issue; what was issued as one waits together.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass

from .flight_log import Flights, Flown

Pair = tuple[str, int, int]  # a group, and two of its ranks, the smaller first
Issue = list[Flown]


@dataclass(frozen=True)
class Messages:
    """met: (send, receive) that wait for nothing but each other. stuck[rank]: what it cannot get past, and its peer."""

    met: list[tuple[Flown, Flown]]
    stuck: dict[int, tuple[Flown, int]]


def match(flights: Flights) -> Messages:
    """Match the messages that have not gone through. O(messages)."""
    queues: defaultdict[Pair, tuple[deque[Issue], deque[Issue]]] = defaultdict(lambda: (deque(), deque()))
    for rank, record in flights.records.items():
        for message in record.operations:
            if message.peer is None or not message.open:
                continue
            queue = queues[message.group, min(rank, message.peer), max(rank, message.peer)][rank > message.peer]
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


def _pair(one: Issue, other: Issue) -> tuple[Flown, Flown] | None:
    """A message of each that are the two ends of one."""
    for mine in one:
        for theirs in other:
            if mine.op != theirs.op:
                return mine, theirs
    return None
