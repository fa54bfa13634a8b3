"""A collective on a network: the schedule that runs on real ranks, event by event on a clock.

A step starts when the one before is over. A message starts when both its ends have reached it::

    both ends there ├ overhead ┤├ latency of the route ┤├ bytes, at the fair share of the links ┤ both ends go on
    step:            its messages, then γ·b for the b bytes that are combined
    collective:      base + the time at which the last rank ends

The messages of one step leave in the order listed, each ``overhead`` after the one before, and share the links.

Where all ranks do the same and the network treats them alike, every step takes equally long for all. Then each kind of
step is simulated once, and the answer is that of the event path. O(messages · log) event by event; else O(steps +
ranks · kinds of step).
"""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from collectives.contract import contract_of
from collectives.messages import chunks_of, twin, unroll
from collectives.schedule import Schedule

from .bound import lower_bound
from .engine import SAME_INSTANT
from .faults import Faults
from .graph import Network, node_of
from .machine import Costs
from .reading import Step, read, read_first
from .run import Message, Run

MOST_CHUNKS, MOST_MESSAGES, MOST_MOVED = 1 << 16, 20_000_000, 50_000_000
PARTS = ("base", "overhead", "latency", "transfer", "sharing", "reduction")


@dataclass(frozen=True)
class Leg:
    """One message on the critical path, and the additions after it; seconds. The parts add up to its length."""

    source: int
    to: int
    channel: int
    start: float
    end: float
    latency: float
    transfer: float
    sharing: float
    reduction: float
    reduces: bool
    link: str
    times: int = 1

    @property
    def seconds(self) -> float:
        return (self.latency + self.transfer + self.sharing + self.reduction) * self.times


@dataclass(frozen=True)
class Outcome:
    """What a collective takes. Seconds and bytes.

    lower_bound_s: what no algorithm beats; path: ``lockstep`` or ``events``; critical_path: the chain of messages that
    ends last (``times`` says how often a leg is repeated); carried: bytes by link number.
    """

    schedule: Schedule
    network: Network
    nbytes: float
    costs: Costs
    time_s: float
    lower_bound_s: float
    path: str
    critical_path: Sequence[Leg]
    carried: Sequence[float]
    messages: int
    alone: int
    fillings: int
    certified: int
    faults: Faults
    simulated_s: float
    run: Run | None = field(default=None, repr=False)

    @property
    def algbw(self) -> float:
        """GB/s, as nccl-tests defines it."""
        return self.nbytes / self.time_s / 1e9 if self.time_s and len(self.network.devices) > 1 else 0.0

    @property
    def busbw(self) -> float:
        return self.algbw * contract_of(self.schedule.collective).factor(len(self.network.devices))

    def breakdown(self) -> dict[str, float]:
        """Seconds by cause along the critical path; they add up to ``time_s``."""
        parts = dict.fromkeys(PARTS, 0.0)
        parts["base"] = self.costs.base
        for leg in self.critical_path:
            overhead = min(leg.latency, self.costs.overhead)
            parts["overhead"] += overhead * leg.times
            parts["latency"] += (leg.latency - overhead) * leg.times
            parts["transfer"] += leg.transfer * leg.times
            parts["sharing"] += leg.sharing * leg.times
            parts["reduction"] += leg.reduction * leg.times
        return {name: seconds for name, seconds in parts.items() if seconds > SAME_INSTANT * self.time_s}

    def phases(self) -> list[tuple[str, float]]:
        """Seconds of each stretch of the critical path that does the same in the same place, in order."""
        phases: list[tuple[str, float]] = []
        devices = self.network.devices
        several = len({node_of(device) for device in devices}) > 1
        for leg in self.critical_path:
            where = ""
            if several:
                inside = node_of(devices[leg.source]) == node_of(devices[leg.to])
                where = " inside nodes" if inside else " between nodes"
            name = ("reduce" if leg.reduces else "copy") + where
            if phases and phases[-1][0] == name:
                phases[-1] = name, phases[-1][1] + leg.seconds
            else:
                phases.append((name, leg.seconds))
        return phases

    def idle_ways(self) -> tuple[int, int]:
        """Of the links that leave a node, how many carry nothing, and how many there are."""
        ways = [
            self.carried[i]
            for i, name in enumerate(self.network.names)
            if node_of(name.partition("->")[0]) and not node_of(name.partition("->")[2])
        ]
        return sum(not nbytes for nbytes in ways), len(ways)

    def links(self) -> list[tuple[str, float, float]]:
        """(name, bytes, utilisation) of the links that carried anything, the busiest first."""
        used = [
            (
                self.network.names[i],
                nbytes,
                min(1.0, nbytes / self.network.capacity[i] / self.time_s) if self.time_s else 0.0,
            )
            for i, nbytes in enumerate(self.carried)
            if nbytes
        ]
        return sorted(used, key=lambda link: -link[2])


def simulate(
    schedule: Schedule,
    network: Network,
    nbytes: float,
    costs: Costs | None = None,
    faults: Faults | None = None,
    events: bool = False,
) -> Outcome:
    """Run ``schedule`` on every device of ``network``.

    Args:
        nbytes: the whole buffer S (n blocks for collectives with a block a rank), as nccl-tests counts it.
        faults: stragglers and jitter; links are slow or lost in the network already (``faults.on``).
        events: go event by event in any case, and keep the run for pictures.

    Raises:
        ValueError: a negative size, a schedule that is wrong, or ranks that no link joins.
        ArithmeticError: a fault of the simulator: a result faster than the machine's bandwidth allows, or unfair rates.
    """
    if not nbytes >= 0 or nbytes == float("inf"):
        raise ValueError(f"size={nbytes}: give bytes from 0 on")
    began = time.perf_counter()
    costs, faults = costs or Costs(), faults or Faults()
    size = len(network.devices)
    if schedule.collective == "barrier":
        nbytes = 0.0
    check_messages(schedule, size)
    share = nbytes / schedule.channels / chunks_of(schedule, size)
    with _uncollected():
        found = None
        if not events and schedule.symmetric and schedule.channels == 1 and not (faults.straggler or faults.jitter):
            found = _lockstep(schedule, network, share, costs)
        found = found or _event_by_event(schedule, network, share, costs, faults, events)
    bound = lower_bound(schedule.collective, network, nbytes)
    if found.seconds < bound * (1 - 1e-9):
        raise ArithmeticError(f"{schedule} takes {found.seconds} s, but the links need {bound} s")
    if found.path == "events" and abs(sum(leg.seconds for leg in found.legs) - found.seconds) > 1e-9 * found.seconds:
        raise ArithmeticError(f"the critical path of {schedule} does not add up to {found.seconds} s")
    return Outcome(
        schedule,
        network,
        nbytes,
        costs,
        costs.base + found.seconds,
        bound,
        found.path,
        found.legs,
        found.carried,
        found.messages,
        found.alone,
        found.fillings,
        found.certified,
        faults,
        time.perf_counter() - began,
        found.run if events else None,
    )


def check_messages(schedule: Schedule, size: int) -> None:
    """Refuse what would run for hours, before it is proved or read; O(steps of rank 0).

    Raises:
        ValueError: more chunks or messages than can be simulated.
    """
    chunks = schedule.chunk_count(size)
    if chunks > max(MOST_CHUNKS, size):
        raise ValueError(f"{schedule} cuts the buffer into {chunks} chunks: take at most {max(MOST_CHUNKS, size)}")
    if schedule.symmetric and schedule.channels == 1:
        return
    steps = unroll(schedule, 0, size)
    messages = schedule.channels * size * sum(max(len(step.sends), len(step.receives)) for step in steps)
    moved = schedule.channels * size * sum(sum(map(len, step.sends.values())) for step in steps)
    if messages > MOST_MESSAGES or moved > MOST_MOVED:
        raise ValueError(
            f"{schedule} sends about {messages} messages of {moved} chunks on {size} ranks: too many to simulate "
            f"(at most {MOST_MESSAGES} and {MOST_MOVED})"
        )


@contextmanager
def _uncollected() -> Iterator[None]:
    """Nothing of a run is garbage before it ends, but looking for some takes a third of its time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@dataclass(frozen=True)
class _Found:
    seconds: float
    path: str
    legs: list[Leg]
    carried: Sequence[float]
    messages: int
    alone: int
    fillings: int
    certified: int
    run: Run | None


def _event_by_event(
    schedule: Schedule, network: Network, share: float, costs: Costs, faults: Faults, record: bool
) -> _Found:
    size = len(network.devices)
    programs = [steps for channel in range(schedule.channels) for steps in read(schedule, size, channel)]
    run = Run(programs, network, share, costs, faults, record)
    seconds, flows = run.run(), run.flows
    counts = run.messages, flows.alone, flows.fillings, flows.certified
    return _Found(seconds, "events", _path(run), flows.carried, *counts, run)


def _lockstep(schedule: Schedule, network: Network, share: float, costs: Costs) -> _Found | None:
    """Each kind of step once, for all ranks; None where not all end at the same time."""
    size, row = len(network.devices), schedule.row(len(network.devices))
    kinds = Counter(read_first(schedule, size))
    seconds, messages, alone, fillings, certified = 0.0, 0, 0, 0, 0
    legs: list[Leg] = []
    carried = [0.0] * len(network.names)
    for step, times in kinds.items():
        programs = [[_of_rank(step, rank, size, row)] for rank in range(size)]
        run = Run(programs, network, share, costs, Faults())
        try:
            longest = run.run()
        except ValueError:
            return None  # its two ends are not in the same step
        if min(begun[-1] for begun in run.begun) < longest * (1 - SAME_INSTANT):
            return None
        seconds += times * longest
        (leg,) = _path(run, times)
        legs.append(leg)
        messages += times * run.messages
        alone += times * run.flows.alone
        fillings += run.flows.fillings
        certified += run.flows.certified
        for link, nbytes in enumerate(run.flows.carried):
            carried[link] += times * nbytes
    return _Found(seconds, "lockstep", legs, carried, messages, alone, fillings, certified, None)


def _of_rank(step: Step, rank: int, size: int, row: int) -> Step:
    sends = tuple([(twin(to, rank, size, row), chunks) for to, chunks in step.sends])
    return Step(sends, tuple([twin(source, rank, size, row) for source in step.receives]), step.reduced)


def _path(run: Run, times: int = 1) -> list[Leg]:
    """From the process that ends last, back to the start."""
    process = max(range(len(run.begun)), key=lambda p: run.begun[p][-1])
    index = len(run.ended[process]) - 1
    legs: list[Leg] = []
    while index >= 0:
        flow = run.ended[process][index]
        legs.append(_leg(run, flow, run.begun[process][index + 1], run.programs[process][index], times))
        process, index = flow.last, flow.step - 1
    return legs[::-1]


def _leg(run: Run, message: Message, goes_on: float, step: Step, times: int) -> Leg:
    capacity = run.network.capacity
    narrow = min(message.route, key=lambda link: capacity[link])
    alone = min(message.ends - message.began, message.size / capacity[narrow])
    return Leg(
        message.source,
        message.to,
        message.channel,
        message.since,
        message.ends,
        message.began - message.since,
        alone,
        message.ends - message.began - alone,
        goes_on - message.ends,
        step.reduced > 0,
        run.network.names[narrow],
        times,
    )
