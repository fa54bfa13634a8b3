"""What a schedule costs: the α–β model, read off the schedule by walking it.

A rank has one port, full duplex. A step starts when the one before is over; a message starts when both its ends have
reached it and both ports are free, and ports serve messages in the order in which they could start::

    message of b bytes:   ├ overhead ┤├ β·b on both ports ┤├ α ┤
    step:                 its messages, then γ·b for the b bytes that are combined
    collective:           base + the time at which the last rank ends

So α is paid once a message, messages of one step share a port, and channels run side by side on the same ports. On a
machine with fewer cores than ranks the CPU is the wire: there an algorithm takes at least its latency and all work
(overhead, β and γ of every message and addition) shared by the cores.

On GPUs the host launches the messages of a step as one group, and does not wait for it: it is ahead, or the device is.
Groups are launched one after the other, the channels in turn, so the G-th starts after G launches at the earliest::

    host:     ├ launch 1 ┤├ launch 2 ┤├ launch 3 ┤        launch above every step:  base + G·launch + the last step
    device:              ├ step 1 ┤   ├ step 2 ┤  …       launch below every step:  base + launch + all steps

Between nodes a message has other constants and takes, in the place of ports, the sender's and the receiver's NIC, which
neighbours may share.

Source of the model: Hockney, "The communication challenge for MPP", 1994; Thakur, Rabenseifner and Gropp,
"Optimization of collective communication operations in MPICH", 2005.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from .messages import PackedStep, chunks_of, unroll
from .schedule import Schedule


@dataclass(frozen=True)
class Machine:
    """The constants of the model, in seconds and bytes.

    base: once a collective; overhead: the sender's and receiver's own work, once a message; alpha: latency of a
    message; beta: seconds a byte on a port (1 / bandwidth in one direction); gamma: seconds a byte combined.
    cores: ranks that can work at the same time (0: as many as there are). launch: of the host, once a group of messages
    (0: it sends them one by one, which is overhead).

    local: ranks of a node, one node after the other (0: there is one node); nics: NICs of a node (0: one a rank);
    far_alpha, far_beta: as alpha and beta, of a message from NIC to NIC.
    """

    alpha: float
    beta: float
    gamma: float = 0.0
    base: float = 0.0
    overhead: float = 0.0
    cores: int = 0
    launch: float = 0.0
    local: int = 0
    nics: int = 0
    far_alpha: float = 0.0
    far_beta: float = 0.0

    def nodes(self, size: int) -> int:
        """Nodes that ``size`` ranks take."""
        return -(-size // self.local) if self.local else 1

    def is_far(self, one: int, other: int) -> bool:
        """Whether two ranks are on different nodes."""
        return bool(self.local) and one // self.local != other // self.local

    def nic(self, rank: int) -> int:
        """The rank's NIC, counted through all nodes."""
        nics = self.nics or self.local
        node, place = divmod(rank, self.local)
        return node * nics + place * nics // self.local

    def message(self, far: bool, nbytes: float) -> tuple[float, float]:
        """Seconds that a message holds its ports (or NICs), and its latency after that."""
        alpha, beta = (self.far_alpha, self.far_beta) if far else (self.alpha, self.beta)
        return self.overhead + nbytes * beta, alpha


# gloo over loopback, from `python -m collectives bench` on two cores (see BENCHMARKS.md); good to some tens of percent.
LOOPBACK = Machine(alpha=22e-6, beta=0.40e-9, gamma=0.12e-9, base=36e-6, overhead=55e-6)


def predict(schedule: Schedule, size: int, nbytes: float, machine: Machine) -> float:
    """Seconds that ``schedule`` takes on ``size`` ranks of ``machine``.

    Args:
        nbytes: the whole buffer S (n blocks for collectives with a block a rank), as nccl-tests counts it.

    O(messages · log messages); of a ``symmetric`` schedule only rank 0's messages, if nodes are no more than its rows.
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
    walk = (_RankZero if is_alike(schedule, size, machine) else _Walk)(schedule, size, share, machine)
    return walk.run(), walk.work


def is_alike(schedule: Schedule, size: int, machine: Machine) -> bool:
    """Whether every rank does the same at the same time, so that rank 0 stands for all.

    Over nodes that is so of rows that are nodes, and where every step is with everybody, as many near as far.
    """
    if not schedule.symmetric or machine.nodes(size) == 1 or schedule.row(size) == machine.local:
        return bool(schedule.symmetric)
    steps = (step for channel in range(schedule.channels) for step in unroll(schedule, 0, size, channel))
    return all(len(_remote(step, 0)[0]) == size - 1 for step in steps)


def _remote(step: PackedStep, rank: int) -> tuple[dict[int, int], dict[int, tuple[int, int]]]:
    """By peer: chunks of the message that leaves, and (chunks, chunks reduced) of the one that arrives."""
    out = {to: len(places) for to, places in step.sends.items() if to != rank}
    into = {s: (len(p), sum(reduces for _, reduces in p)) for s, p in step.receives.items() if s != rank}
    return out, into


def _launched(channels: Sequence[Sequence[PackedStep]], rank: int, launch: float) -> list[list[float]]:
    """By channel and step: when the host has launched it at the earliest; the channels take turns."""
    times: list[list[float]] = [[] for _ in channels]
    clock = 0.0
    for position in range(max(map(len, channels))):
        for steps, found in zip(channels, times, strict=True):
            if position < len(steps):
                clock += launch * any(_remote(steps[position], rank))
                found.append(clock)
    return times


class _RankZero:
    """Every rank does the same at the same time: rank 0's port, NIC and adder stand for all; O(its messages · log)."""

    def __init__(self, schedule: Schedule, size: int, share: float, machine: Machine) -> None:
        self.size, self.share, self.machine, self.work = size, share, machine, 0.0
        channels = [unroll(schedule, 0, size, channel) for channel in range(schedule.channels)]
        launched = _launched(channels, 0, machine.launch)
        self.steps = [zip(steps, times, strict=True) for steps, times in zip(channels, launched, strict=True)]
        self.until, self.left, self.reduced = ([0.0] * len(channels), [0] * len(channels), [0] * len(channels))
        self.ready: list[tuple[float, int, int, int, int]] = []  # (since, position, channel, to, chunks)
        # neighbours use a shared NIC at the same time: to each it is so much slower
        self.sharing = -(-machine.local // (machine.nics or machine.local)) if machine.nodes(size) > 1 else 1

    def run(self) -> float:
        free = {False: 0.0, True: 0.0}  # the port, and the NIC
        adder = end = 0.0
        for channel in range(len(self.steps)):
            self.enter(channel, 0.0)
        while self.ready:
            since, _, channel, to, chunks = heapq.heappop(self.ready)
            far = self.machine.is_far(0, to)
            busy, alpha = self.machine.message(far, self.share * chunks)
            free[far] = max(free[far], since) + busy * (self.sharing if far else 1)
            self.work += busy * self.size
            self.until[channel] = max(self.until[channel], free[far] + alpha)
            self.left[channel] -= 1
            if self.left[channel]:
                continue
            begin = self.until[channel]
            if self.reduced[channel]:
                adding = self.share * self.reduced[channel] * self.machine.gamma
                begin = adder = max(begin, adder) + adding
                self.work += adding * self.size
            end = max(end, begin)
            self.enter(channel, begin)
        return end

    def enter(self, channel: int, begin: float) -> None:
        """Start the channel's next step that has messages."""
        for step, launched in self.steps[channel]:
            out, into = _remote(step, 0)
            if out:
                since = max(begin, launched)
                self.until[channel], self.left[channel] = since, len(out)
                self.reduced[channel] = sum(reduced for _, reduced in into.values())
                for position, (to, chunks) in enumerate(out.items()):
                    heapq.heappush(self.ready, (since, position, channel, to, chunks))
                return


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
        self.size, self.share, self.machine, self.work = size, share, machine, 0.0
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
        ports = size + machine.nodes(size) * (machine.nics or machine.local)  # behind the ranks' own those of the NICs
        self.out_free, self.in_free, self.adder_free = [0.0] * ports, [0.0] * ports, [0.0] * size
        self.launched: dict[tuple[int, int], list[float]] = {}
        for rank in range(size):
            mine = [self.steps[channel, rank] for channel in range(schedule.channels)]
            for channel, times in enumerate(_launched(mine, rank, machine.launch)):
                self.launched[channel, rank] = times
        self.ready: list[_Message] = []

    def run(self) -> float:
        for key in self.steps:
            self.enter(*key)
        while self.ready:
            message = heapq.heappop(self.ready)
            source, to = message.source, message.to
            far = self.machine.is_far(source, to)
            out, into = (self.nic(source), self.nic(to)) if far else (source, to)
            possible = max(message.possible, self.out_free[out], self.in_free[into])
            if possible > message.possible:  # a port is busy: wait for it, in the queue
                message.possible = possible
                heapq.heappush(self.ready, message)
                continue
            busy, alpha = self.machine.message(far, self.share * message.chunks)
            self.work += busy
            self.out_free[out] = self.in_free[into] = possible + busy
            for rank in (source, to):
                self.end(message.channel, rank, possible + busy + alpha)
        return max(self.begin.values())

    def nic(self, rank: int) -> int:
        """Its place among the ports."""
        return self.size + self.machine.nic(rank)

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
            self.begin[key] = max(self.begin[key], self.launched[key][self.at[key]])
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
