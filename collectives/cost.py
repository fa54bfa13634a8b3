"""What a schedule costs: the α–β model, read off the schedule by walking it.

A rank has one port, full duplex. A step starts when the one before is over; a message starts when both its ends have
reached it and both ports are free, and ports serve messages in the order in which they could start::

    message of b bytes:   ├ overhead ┤├ β·b on both ports ┤├ α ┤
    step:                 its messages, then γ·b for the b bytes that are combined
    collective:           base + the time at which the last rank ends

So α is paid once a message, messages of one step share a port, and channels run side by side on the same ports. On a
machine with fewer cores than ranks the CPU is the wire: there an algorithm takes at least its latency and all work
(overhead, β and γ of every message and addition) shared by the cores.

Source of the model: Hockney, "The communication challenge for MPP", 1994; Thakur, Rabenseifner and Gropp,
"Optimization of collective communication operations in MPICH", 2005.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from .messages import PackedStep, chunks_of, unroll
from .schedule import Schedule


@dataclass(frozen=True)
class Machine:
    """The constants of the model, in seconds and bytes.

    base: once a collective; overhead: the sender's and receiver's own work, once a message; alpha: latency of a
    message; beta: seconds a byte on a port (1 / bandwidth in one direction); gamma: seconds a byte combined.
    cores: ranks that can work at the same time (0: as many as there are).
    """

    alpha: float
    beta: float
    gamma: float = 0.0
    base: float = 0.0
    overhead: float = 0.0
    cores: int = 0


# gloo over loopback, from `python -m collectives bench` on two cores (see BENCHMARKS.md); good to some tens of percent.
LOOPBACK = Machine(alpha=22e-6, beta=0.40e-9, gamma=0.12e-9, base=36e-6, overhead=55e-6)


def predict(schedule: Schedule, size: int, nbytes: float, machine: Machine) -> float:
    """Seconds that ``schedule`` takes on ``size`` ranks of ``machine``.

    Args:
        nbytes: the whole buffer S (n blocks for collectives with a block a rank), as nccl-tests counts it.

    O(messages · log messages); a ``symmetric`` schedule of one channel is read for rank 0 alone: O(its steps).
    """
    share = nbytes / schedule.channels / chunks_of(schedule, size)
    if schedule.collective == "barrier":
        share = 0.0
    span, work = _times(schedule, size, share, machine)
    if not 0 < machine.cores < size:
        return machine.base + span
    latency, _ = _times(schedule, size, 0.0, Machine(machine.alpha, 0.0))
    return machine.base + max(span, latency + work / machine.cores)


def _times(schedule: Schedule, size: int, share: float, machine: Machine) -> tuple[float, float]:
    """Seconds from first to last with a core a rank (the span), and seconds of work of all ranks together."""
    if schedule.symmetric and schedule.channels == 1:
        return _rank_zero(schedule, size, share, machine)
    walk = _Walk(schedule, size, share, machine)
    return walk.run(), walk.work


def _remote(step: PackedStep, rank: int) -> tuple[dict[int, int], dict[int, tuple[int, int]]]:
    """By peer: chunks of the message that leaves, and (chunks, chunks reduced) of the one that arrives."""
    out = {to: len(places) for to, places in step.sends.items() if to != rank}
    into = {s: (len(p), sum(reduces for _, reduces in p)) for s, p in step.receives.items() if s != rank}
    return out, into


def _rank_zero(schedule: Schedule, size: int, share: float, machine: Machine) -> tuple[float, float]:
    """Every rank does the same at the same time, so one step is as long for all: the sum over rank 0's steps."""
    span = work = 0.0
    for step in unroll(schedule, 0, size):
        out, into = _remote(step, 0)
        if not out and not into:
            continue
        messages = max(len(out), len(into))
        volume = max(sum(out.values()), sum(chunks for chunks, _ in into.values()))
        reduced = sum(reduced for _, reduced in into.values())
        busy = machine.overhead * messages + share * (machine.beta * volume + machine.gamma * reduced)
        span += machine.alpha + busy
        work += busy * size
    return span, work


@dataclass(order=True, slots=True)
class _Message:
    """A message both of whose ends are there; the one that could have started first is served first.

    possible: when it can start, as far as is known; since: when both its ends had reached it; position: its place in
    the sender's step.
    """

    possible: float
    since: float
    position: int
    channel: int
    source: int
    to: int
    chunks: int


class _Walk:
    """All ranks and channels on a clock; ports are taken in the order in which messages could start."""

    def __init__(self, schedule: Schedule, size: int, share: float, machine: Machine) -> None:
        self.share, self.machine, self.work = share, machine, 0.0
        self.steps = {
            (channel, rank): unroll(schedule, rank, size, channel)
            for channel in range(schedule.channels)
            for rank in range(size)
        }
        self.at = dict.fromkeys(self.steps, 0)
        self.begin = dict.fromkeys(self.steps, 0.0)
        self.until: dict[tuple[int, int], float] = {}  # when the last of the current step's messages ends
        self.pending: dict[tuple[int, int], int] = {}
        self.posted: dict[tuple[int, int, int], tuple[float, int]] = {}  # (channel, source, to) → one end is there
        self.out_free, self.in_free, self.adder_free = [0.0] * size, [0.0] * size, [0.0] * size
        self.ready: list[_Message] = []

    def run(self) -> float:
        for key in self.steps:
            self.enter(*key)
        while self.ready:
            message = heapq.heappop(self.ready)
            source, to = message.source, message.to
            possible = max(message.possible, self.out_free[source], self.in_free[to])
            if possible > message.possible:  # a port is busy: wait for it, in the queue
                message.possible = possible
                heapq.heappush(self.ready, message)
                continue
            busy = self.machine.overhead + self.share * message.chunks * self.machine.beta
            self.work += busy
            self.out_free[source] = self.in_free[to] = possible + busy
            for rank in (source, to):
                self.end(message.channel, rank, possible + busy + self.machine.alpha)
        return max(self.begin.values())

    def enter(self, channel: int, rank: int) -> None:
        """Start the rank's next step that has messages: put its ends of them up."""
        key = channel, rank
        steps = self.steps[key]
        while self.at[key] < len(steps):
            step = steps[self.at[key]]
            out, into = _remote(step, rank)
            if not out and not into:
                self.at[key] += 1
                continue
            self.until[key], self.pending[key] = self.begin[key], len(out) + len(into)
            for position, to in enumerate(out):
                self.post(channel, rank, to, self.begin[key], position, out[to])
            for source in into:
                self.post(channel, source, rank, self.begin[key], 0, into[source][0])
            return

    def post(self, channel: int, source: int, to: int, time: float, position: int, chunks: int) -> None:
        other = self.posted.pop((channel, source, to), None)
        if other is None:
            self.posted[channel, source, to] = time, position
            return
        since = max(time, other[0])
        message = _Message(since, since, max(position, other[1]), channel, source, to, chunks)
        heapq.heappush(self.ready, message)

    def end(self, channel: int, rank: int, time: float) -> None:
        """A message of the rank's step is over; after the last one, what arrived is combined."""
        key = channel, rank
        self.until[key] = max(self.until[key], time)
        self.pending[key] -= 1
        if self.pending[key]:
            return
        reduced = sum(reduced for _, reduced in _remote(self.steps[key][self.at[key]], rank)[1].values())
        self.begin[key] = self.until[key]
        if reduced:
            begin = max(self.until[key], self.adder_free[rank])
            adding = self.share * reduced * self.machine.gamma
            self.begin[key] = self.adder_free[rank] = begin + adding
            self.work += adding
        self.at[key] += 1
        self.enter(channel, rank)
