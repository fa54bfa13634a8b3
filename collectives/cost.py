"""What a schedule costs: the α–β model, read off the schedule by walking it.

A rank has one port, full duplex. A step starts when the one before is over; a message starts when both its ends have
reached it and both ports are free, and ports serve messages in the order in which they could start::

    message of b bytes:   ├ overhead ┤├ β·b on both ports ┤├ α ┤├ γ·b, if it is reduced ┤
    collective:           base + the time at which the last rank ends

So α is paid once a message, messages of one step share a port, and channels run side by side on the same ports. A
machine with fewer cores than ranks does everything but waiting more slowly: there the CPU is the wire.

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

    def crowding(self, size: int) -> float:
        """How many ranks share a core."""
        return max(1.0, size / self.cores) if self.cores else 1.0


def cost(schedule: Schedule, size: int, nbytes: float, machine: Machine) -> float:
    """Seconds that ``schedule`` takes on ``size`` ranks of ``machine``.

    Args:
        nbytes: the whole buffer S (n blocks for collectives with a block a rank), as nccl-tests counts it.

    O(messages · log messages); a ``symmetric`` schedule of one channel is read for rank 0 alone: O(its steps).
    """
    share = nbytes / schedule.channels / chunks_of(schedule, size)
    if schedule.collective == "barrier":
        share = 0.0
    if schedule.symmetric and schedule.channels == 1:
        return machine.base + _rank_zero(schedule, size, share, machine)
    return machine.base + _Walk(schedule, size, share, machine).run()


def _remote(step: PackedStep, rank: int) -> tuple[list[int], list[tuple[int, int]]]:
    """Chunks of every message that leaves, and (chunks, chunks reduced) of every one that arrives."""
    out = [len(places) for to, places in step.sends.items() if to != rank]
    into = [(len(p), sum(reduces for _, reduces in p)) for source, p in step.receives.items() if source != rank]
    return out, into


def _rank_zero(schedule: Schedule, size: int, share: float, machine: Machine) -> float:
    """Every rank does the same at the same time, so one step is as long for all: the sum over rank 0's steps."""
    crowd = machine.crowding(size)
    total = 0.0
    for step in unroll(schedule, 0, size):
        out, into = _remote(step, 0)
        if not out and not into:
            continue
        messages = max(len(out), len(into))
        volume = max(sum(out), sum(chunks for chunks, _ in into))
        reduced = sum(reduced for _, reduced in into)
        work = machine.overhead * messages + share * (machine.beta * volume + machine.gamma * reduced)
        total += machine.alpha + work * crowd
    return total


class _Walk:
    """All ranks and channels on a clock; ports are taken in the order in which messages could start."""

    def __init__(self, schedule: Schedule, size: int, share: float, machine: Machine) -> None:
        self.size, self.share = size, share
        self.crowd, self.machine = machine.crowding(size), machine
        self.steps = {
            (channel, rank): unroll(schedule, rank, size, channel)
            for channel in range(schedule.channels)
            for rank in range(size)
        }
        self.at = dict.fromkeys(self.steps, 0)
        self.begin = dict.fromkeys(self.steps, 0.0)
        self.pending: dict[tuple[int, int], int] = {}
        self.until: dict[tuple[int, int], float] = {}
        self.posted: dict[tuple[int, int, int], tuple[float, int]] = {}  # (channel, source, to) → one end is there
        self.out_free, self.in_free, self.adder_free = [0.0] * size, [0.0] * size, [0.0] * size
        self.ready: list[tuple[float, int, int, int, int, int, int]] = []

    def run(self) -> float:
        for key in self.steps:
            self.enter(*key)
        order = 0
        while self.ready:
            start, _, channel, source, to, chunks, reduced = heapq.heappop(self.ready)
            possible = max(start, self.out_free[source], self.in_free[to])
            if possible > start:  # a port is busy: come back when it is free, behind those who could start before
                order += 1
                heapq.heappush(self.ready, (possible, order, channel, source, to, chunks, reduced))
                continue
            busy = (self.machine.overhead + self.share * chunks * self.machine.beta) * self.crowd
            self.out_free[source] = self.in_free[to] = start + busy
            end = start + busy + self.machine.alpha
            added = end
            if reduced:
                adding = self.share * reduced * self.machine.gamma * self.crowd
                added = self.adder_free[to] = max(end, self.adder_free[to]) + adding
            self.end(channel, source, end)
            self.end(channel, to, added)
        return max(self.begin.values())

    def enter(self, channel: int, rank: int) -> None:
        """Start the rank's next step that has messages: put its ends of them up."""
        key = channel, rank
        steps = self.steps[key]
        while self.at[key] < len(steps):
            step = steps[self.at[key]]
            out = [(rank, to) for to in step.sends if to != rank]
            into = [(source, rank) for source in step.receives if source != rank]
            if not out and not into:
                self.at[key] += 1
                continue
            self.pending[key], self.until[key] = len(out) + len(into), self.begin[key]
            for source, to in out + into:
                self.post(channel, source, to, self.begin[key], step, rank)
            return

    def post(self, channel: int, source: int, to: int, time: float, step: PackedStep, rank: int) -> None:
        chunks = len(step.sends[to]) if rank == source else len(step.receives[source])
        reduced = 0 if rank == source else sum(reduces for _, reduces in step.receives[source])
        other = self.posted.pop((channel, source, to), None)
        if other is None:
            self.posted[channel, source, to] = time, reduced
            return
        first, known = other
        heapq.heappush(self.ready, (max(time, first), 0, channel, source, to, chunks, max(reduced, known)))

    def end(self, channel: int, rank: int, time: float) -> None:
        key = channel, rank
        self.until[key] = max(self.until[key], time)
        self.pending[key] -= 1
        if self.pending[key] == 0:
            self.begin[key] = self.until[key]
            self.at[key] += 1
            self.enter(channel, rank)
