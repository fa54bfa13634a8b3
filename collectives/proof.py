"""Prove a schedule right, by running it on sets instead of numbers.

Every place holds *which* data it is and *whose* contributions are in it. The ranks advance together under the strictest
rule that a network may have: a message moves only when both ends have reached it (nothing is buffered). What comes out
is either a :class:`Proof`, or the sentence that says what is wrong, where, and how to mend it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from fractions import Fraction

from . import verdict
from .contract import CONTRACTS, Content, Contract, Place
from .errors import ScheduleError
from .messages import PackedStep, chunks_of, unroll
from .schedule import Schedule
from .sentence import Sentence
from .symmetry import check_symmetry
from .waits import Wait, find_cycle, in_words

PROVED_UP_TO = 64  # ranks, before a schedule runs; a proof takes O(messages), and what holds up to here holds beyond


@dataclass(frozen=True)
class Proof:
    """What a correct schedule costs.

    steps: the longest chain of steps of which each waits for the one before (rounds, if every step takes as long).
    messages: messages on the wire, all ranks and channels together; local copies are free.
    sent: per rank, the fraction of the whole buffer (n blocks for collectives with a block a rank) that it sends.
    lockstep: every message leaves and arrives in steps of the same number.
    """

    steps: int
    messages: int
    sent: dict[int, Fraction]
    lockstep: bool


@dataclass(frozen=True, slots=True)
class Move:
    """A chunk that arrived: in which round, from where to where, and what the place holds afterwards."""

    round: int
    source: int
    to: int
    place: Place
    target: Place
    reduces: bool
    content: Content


def moves(schedule: Schedule, size: int, channel: int = 0) -> list[Move]:
    """Every chunk that moves in one channel of a correct schedule, by round and rank; for drawings.

    Raises:
        ScheduleError: it is not correct.
    """
    run = _Run(schedule, size, channel, chunks_of(schedule, size))
    run.advance()
    run.check_promise()
    return sorted(run.moves, key=lambda move: (move.round, move.to, move.source))


def prove(schedule: Schedule, size: int) -> Proof:
    """Check that ``schedule`` keeps its collective's promise on ``size`` ranks; O(operations), no torch.

    Every rank ends with exactly the chunks promised, each contribution once (a barrier: who is known, not how often);
    every message has its counterpart with as many chunks of the same sizes; no step has a race; no rank waits in a
    cycle even when nothing is buffered; a ``symmetric`` schedule is so.

    Raises:
        ScheduleError: with ``kind``, ``rank`` and ``step``.
        ValueError: a number of ranks or chunks that makes no sense.
    """
    if not isinstance(schedule, Schedule):
        raise ValueError(
            Sentence(
                "proof.no_schedule",
                "schedule={schedule} is no Schedule: make one, or find(collective, name)",
                schedule=repr(schedule),
            )
        )
    chunks = chunks_of(schedule, size)
    steps, messages, lockstep = 0, 0, True
    sent = {rank: Fraction(0) for rank in range(size)}
    for channel in range(schedule.channels):
        check_symmetry(schedule, size, channel)
        run = _Run(schedule, size, channel, chunks)
        run.advance()
        run.check_promise()
        steps = max(steps, max(run.finished))
        messages += run.messages
        lockstep = lockstep and run.lockstep
        for rank, moved in enumerate(run.sent):
            sent[rank] += Fraction(moved, chunks * schedule.channels)
    return Proof(steps, messages, sent, lockstep)


class _Run:
    """One channel, all ranks: the state of every place, and where every rank is."""

    def __init__(self, schedule: Schedule, size: int, channel: int, chunks: int) -> None:
        self.contract: Contract = CONTRACTS[schedule.collective]
        self.size, self.chunks = size, chunks
        self.steps = [unroll(schedule, rank, size, channel) for rank in range(size)]
        self.held: list[dict[Place, Content]] = [dict(self.contract.starts(rank, size, chunks)) for rank in range(size)]
        self.at = [0] * size
        self.finished = [0] * size  # the round in which the rank's last step ended
        self.arrived: list[dict[int, list[Content]]] = [{} for _ in range(size)]  # by source, for the current step
        self.met: dict[tuple[int, int], int] = {}  # (to, source) → position of the source's step whose message came
        self.left: list[set[int]] = [set() for _ in range(size)]  # whom the current step has sent to
        self.begun = [0] * size  # the round in which the current step can start, peers included
        self.messages, self.lockstep = 0, True
        self.sent = [0] * size
        self.moves: list[Move] = []

    def advance(self) -> None:
        ready = deque(range(self.size))
        while ready:
            rank = ready.popleft()
            step = self.current(rank)
            if step is None:
                continue
            for to in step.sends:
                self.meet(rank, to)
            for source in step.receives:
                self.meet(source, rank)
            for peer in {rank, *step.sends, *step.receives}:
                if self.complete(peer):
                    self.apply(peer)
                    ready.append(peer)
        if any(self.current(rank) is not None for rank in range(self.size)):
            raise self.stuck()

    def current(self, rank: int) -> PackedStep | None:
        return self.steps[rank][self.at[rank]] if self.at[rank] < len(self.steps[rank]) else None

    def meet(self, source: int, to: int) -> None:
        """Carry the message of the two ranks' current steps, if both are there."""
        sender, receiver = self.current(source), self.current(to)
        if sender is None or receiver is None or to not in sender.sends or source not in receiver.receives:
            return
        if to in self.left[source] or source in self.arrived[to]:
            return  # one of the two has met this message, and is still busy with the rest of its step
        places, into = sender.sends[to], receiver.receives[source]
        if len(places) != len(into):
            raise verdict.other_length(source, sender.index, len(places), to, receiver.index, len(into))
        for place, (target, _) in zip(places, into, strict=True):
            if self.size_class(place) != self.size_class(target):
                raise verdict.other_chunk(source, sender.index, place, to, receiver.index, target)
            if place not in self.held[source]:
                raise verdict.not_held(source, sender.index, place, to)
        self.arrived[to][source] = [self.held[source][place] for place in places]
        self.met[to, source] = self.at[source]
        self.left[source].add(to)
        if source != to:
            begun = max(self.finished[source], self.finished[to])
            self.begun[source], self.begun[to] = max(self.begun[source], begun), max(self.begun[to], begun)
            self.messages += 1
            self.lockstep = self.lockstep and self.at[source] == self.at[to]
            self.sent[source] += len(places)

    def size_class(self, place: Place) -> int:
        space, index = place
        if self.contract.name == "all_to_all":  # its blocks may be cut unevenly, but are alike
            return index % (self.chunks // self.size)
        return index % self.chunks if space == "scratch" else index

    def complete(self, rank: int) -> bool:
        step = self.current(rank)
        return (
            step is not None
            and len(self.left[rank]) == len(step.sends)
            and len(self.arrived[rank]) == len(step.receives)
        )

    def apply(self, rank: int) -> None:
        """The step is over: what arrived takes its place."""
        step = self.steps[rank][self.at[rank]]
        local = set(step.sends) | set(step.receives) == {rank}
        self.finished[rank] = max(self.finished[rank], self.begun[rank]) + (0 if local else 1)
        for source, into in step.receives.items():
            for place, (target, reduces), content in zip(
                self.steps[source][self.met[rank, source]].sends[rank], into, self.arrived[rank][source], strict=True
            ):
                after = self.combine(rank, step, target, source, content) if reduces else content
                self.held[rank][target] = after
                self.moves.append(Move(self.finished[rank], source, rank, place, target, reduces, after))
        self.at[rank] += 1
        self.arrived[rank], self.left[rank], self.begun[rank] = {}, set(), 0

    def combine(self, rank: int, step: PackedStep, place: Place, source: int, arriving: Content) -> Content:
        if place not in self.held[rank]:
            raise verdict.reduces_into_nothing(rank, step.index, place, source)
        (tag, mine), (other, theirs) = self.held[rank][place], arriving
        if tag != other:
            raise verdict.different(rank, step.index, place, source, found=other, wanted=tag)
        if mine & theirs and self.contract.name != "barrier":
            raise verdict.twice(rank, step.index, place, source, mine & theirs)
        return tag, mine | theirs

    def stuck(self) -> ScheduleError:
        """Nobody can go on: a message without its other end, or a cycle of ranks that wait."""
        waits: dict[int, Wait] = {}
        partners: dict[int, int] = {}  # of those that stand with a send to one rank and a receive from it
        for rank in range(self.size):
            step = self.current(rank)
            if step is None:
                continue
            pending = [("send", to) for to in step.sends if to not in self.left[rank]]
            pending += [("receive", source) for source in step.receives if source not in self.arrived[rank]]
            for verb, peer in pending:
                ahead = self.steps[peer][self.at[peer] :]
                if verb == "send" and not any(rank in other.receives for other in ahead):
                    return verdict.never_received(rank, step.index, peer)
                if verb == "receive" and not any(rank in other.sends for other in ahead):
                    return verdict.never_sent(rank, step.index, peer)
            verb, peer = pending[0]
            waits[rank] = Wait(rank, peer, verb, step.index)
            if sorted(pending) == [("receive", peer), ("send", peer)]:
                partners[rank] = peer
        cycle = find_cycle(waits)
        first, second = cycle[0], cycle[1 % len(cycle)]
        if all(wait.rank in partners for wait in cycle) and partners[second.rank] != first.rank:
            return verdict.other_partner(first.rank, first.step or 0, second.rank, partners[second.rank])
        return ScheduleError(in_words(cycle), "deadlock")

    def check_promise(self) -> None:
        for rank in range(self.size):
            for place, (tag, ranks) in self.contract.ends(rank, self.size, self.chunks):
                self.check_place(rank, place, tag, ranks)

    def check_place(self, rank: int, place: Place, tag: verdict.Tag, ranks: int) -> None:
        last = self.steps[rank][-1].index if self.steps[rank] else None
        held = self.held[rank].get(place)
        if held is None:
            raise verdict.without(rank, last, place)
        if held[0] != tag:
            raise verdict.wrong_data(rank, last, place, found=held[0], wanted=tag)
        if held[1] != ranks:
            raise verdict.lacking(rank, last, place, ranks & ~held[1])
