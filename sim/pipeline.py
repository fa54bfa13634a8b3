"""A pipeline schedule on a clock: how long, how much of it waiting, and what is held meanwhile.

A rank runs its steps in order. A step starts when the rank is free and what its actions wait for has arrived; what it
hands on leaves at its end. Transfers are asynchronous: no rank waits for one to leave. Those from one rank to another
take turns on the link between them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from parallel.pipeline import (
    Action,
    Backward,
    BackwardInput,
    BackwardWeight,
    Forward,
    PipelineSchedule,
    Stages,
    Step,
    Transfer,
    find,
    schedules,
    validate,
)

from .engine import Engine, Event, Process

LONGEST = 1e9  # seconds, 30 years


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds that a microbatch takes on a rank with all its chunks; a chunk takes its share.

    forward, backward: of a whole rank; weight: the part of ``backward`` that is the gradient of weights (half of it by
    default), which counts where a schedule cuts backwards in two. p2p: a transfer. overlap: what an overlapped pair
    takes, the ``sum`` of both (overlap is worth nothing) or the ``max``. optimizer: the step at the end; sync: it
    starts when all ranks have ended, as with gradient clipping or a check for overflow. straggler: rank → how many
    times slower it computes.

    Raises:
        ValueError: times that make no sense.
    """

    forward: float = 1.0
    backward: float = 2.0
    weight: float | None = None
    p2p: float = 0.0
    overlap: Literal["sum", "max"] = "sum"
    optimizer: float = 0.0
    sync: bool = False
    straggler: Mapping[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("forward", "backward", "weight", "p2p", "optimizer"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= LONGEST:
                raise ValueError(f"{name}={value:g}: a time is a number of seconds from 0 to {LONGEST:g}")
        if self.forward + self.backward == 0:
            raise ValueError("forward=0 and backward=0: nothing takes time; give one of them a time above 0")
        if self.weight is not None and self.weight > self.backward:
            raise ValueError(f"weight={self.weight:g}: it is a part of backward={self.backward:g}; use at most that")
        if self.overlap not in ("sum", "max"):
            raise ValueError(f"overlap={self.overlap!r}: use sum or max")
        for rank, factor in self.straggler.items():
            if not 1 <= factor <= LONGEST:
                raise ValueError(f"straggler of rank {rank}={factor:g}: give how many times slower it is, from 1 on")

    def of(self, kind: type[Action]) -> float:
        """One action on all chunks of a rank."""
        weight = self.backward / 2 if self.weight is None else self.weight
        return {
            Forward: self.forward,
            Backward: self.backward,
            BackwardInput: self.backward - weight,
            BackwardWeight: weight,
        }[kind]


@dataclass(frozen=True)
class PipelineRun:
    """What happened, and the numbers that tell it. All times in seconds.

    steps, starts, ends: of each rank, step by step; messages: how many; transfers: those that took time, with start and
    end; optimizers: (start, end) of each rank, if that takes time.
    """

    schedule: PipelineSchedule
    microbatches: int
    stages: Stages
    times: Times
    steps: list[list[Step]]
    starts: list[list[float]]
    ends: list[list[float]]
    messages: int
    transfers: list[tuple[Transfer, float, float]]
    optimizers: list[tuple[float, float]]
    simulated_s: float

    @property
    def makespan(self) -> float:
        """From the first start to the last end, with the optimizer and the wait before it."""
        first = min(starts[0] for starts in self.starts)
        return max([ends[-1] for ends in self.ends] + [end for _, end in self.optimizers]) - first

    @cached_property
    def stage_span(self) -> float:
        """The longest time from a rank's own first start to its own last end, without the optimizer."""
        return max(ends[-1] - starts[0] for starts, ends in zip(self.starts, self.ends, strict=True))

    @property
    def step_time(self) -> float:
        """From one training step to the next, if they follow each other without a pause.

        Where ranks end one after the other, as in ZB-H2, they may begin the next step one after the other, so it is the
        stage span; unless they wait for each other before the optimizer: then it is the makespan.
        """
        return self.makespan if self.times.sync else self.stage_span + self.times.optimizer

    @property
    def sync_wait(self) -> float:
        """Time spent at the synchronisation before the optimizer, if there is one, all ranks together."""
        return math.fsum(end - start for start, end in self.sync_waits)

    @property
    def sync_waits(self) -> list[tuple[float, float]]:
        """(start, end) of each rank's wait at the synchronisation; empty if there is none."""
        last = max(ends[-1] for ends in self.ends)
        return [(ends[-1], last) for ends in self.ends] if self.times.sync else []

    @cached_property
    def busy(self) -> float:
        """Time spent computing, all ranks together, without the optimizer."""
        pairs = zip(self.starts, self.ends, strict=True)
        return math.fsum(end - start for starts, ends in pairs for start, end in zip(starts, ends, strict=True))

    @property
    def bubble_fraction(self) -> float:
        """The part of the ranks' time in which they wait: (p-1)/(m+p-1) for GPipe and 1F1B."""
        return 1 - self.busy / (self.stages.ranks * self.stage_span)

    @property
    def bubble_over_ideal(self) -> float:
        """The wait as a part of the time without any: (p-1)/m for GPipe and 1F1B, (p-1)/(v·m) interleaved."""
        return (self.stages.ranks * self.stage_span - self.busy) / self.busy

    @cached_property
    def peak_activations(self) -> list[float]:
        """For each rank the most that it holds, in microbatches of all its chunks."""
        return [max(held for _, held in self.held(rank)) for rank in range(self.stages.ranks)]

    def held(self, rank: int) -> Iterator[tuple[float, float]]:
        """(time, microbatches held from then on): from the start of F to the end of B, or of W where that is cut."""
        held = 0
        for step, start, end in zip(self.steps[rank], self.starts[rank], self.ends[rank], strict=True):
            came = sum(type(action) is Forward for action in step)
            went = sum(type(action) in (Backward, BackwardWeight) for action in step)
            if came:
                held += came
                yield start, held / self.stages.chunks
            if went:
                held -= went
                yield end, held / self.stages.chunks

    def facts(self) -> dict[str, float | str]:
        """The numbers that stand for themselves."""
        return {
            "schedule": self.schedule.name,
            "stages": self.stages.ranks,
            "microbatches": self.microbatches,
            "chunks": self.stages.chunks,
            "makespan": self.makespan,
            "stage_span": self.stage_span,
            "step_time": self.step_time,
            "sync_wait": self.sync_wait,
            "busy": self.busy,
            "bubble_fraction": self.bubble_fraction,
            "bubble_over_ideal": self.bubble_over_ideal,
            "messages": self.messages,
        }


def simulate(
    schedule: str | PipelineSchedule,
    ranks: int,
    microbatches: int,
    chunks: int | None = None,
    times: Times | None = None,
) -> PipelineRun:
    """Run a schedule on a clock. O(actions · log(ranks)).

    Args:
        schedule: its name, or itself; one that is not built in is validated first.
        chunks: of a rank; the schedule's own number by default.

    Raises:
        ValueError: impossible numbers, an unknown name, or (``ScheduleError``) a schedule that is wrong.
    """
    schedule, times = find(schedule), times or Times()
    for rank in times.straggler:
        if not 0 <= rank < ranks:
            raise ValueError(f"straggler of rank {rank}: there are ranks 0 to {ranks - 1}")
    if schedule not in schedules():
        validate(schedule, ranks, microbatches, chunks)
    return play(schedule, ranks, microbatches, chunks, times)


def play(
    schedule: PipelineSchedule, ranks: int, microbatches: int, chunks: int | None = None, times: Times | None = None
) -> PipelineRun:
    """The same without a proof: a schedule that stands still is played as far as it gets.

    Its ``steps`` are those that were carried out. Where a rank has none, there are no numbers, only starts and ends.

    Raises:
        ValueError: as ``PipelineSchedule.steps``.
    """
    began, times = time.perf_counter(), times or Times()
    stages = Stages(schedule, ranks, chunks)
    steps = [schedule.steps(rank, ranks, microbatches, chunks) for rank in range(ranks)]
    clock = _Clock(stages, times, steps)
    clock.engine.run()
    steps = [mine[: len(ends)] for mine, ends in zip(steps, clock.ends, strict=True)]
    return PipelineRun(
        schedule,
        microbatches,
        stages,
        times,
        steps,
        clock.starts,
        clock.ends,
        clock.messages,
        clock.transfers,
        clock.optimizers if times.optimizer else [],
        time.perf_counter() - began,
    )


class _Clock:
    """The ranks as processes of an engine."""

    def __init__(self, stages: Stages, times: Times, steps: list[list[Step]]) -> None:
        self.engine, self.stages, self.times, self.steps = Engine(), stages, times, steps
        self.starts: list[list[float]] = [[] for _ in steps]
        self.ends: list[list[float]] = [[] for _ in steps]
        self.messages = 0
        self.transfers: list[tuple[Transfer, float, float]] = []
        self.optimizers = [(0.0, 0.0)] * len(steps)
        self._arrived: set[Transfer] = set()
        self._waiting: dict[Transfer, Event] = {}
        self._link_free: dict[tuple[int, int], float] = {}
        self._unfinished = len(steps)
        self._all_finished = Event(self.engine)
        for rank in range(len(steps)):
            self.engine.start(self._rank(rank))

    def _rank(self, rank: int) -> Process:
        engine, takes, gives = self.engine, self.stages.takes, self.stages.gives
        arrived, waiting = self._arrived, self._waiting
        starts, ends = self.starts[rank], self.ends[rank]
        slow = self.times.straggler.get(rank, 1.0)
        share = slow / self.stages.chunks
        seconds = {
            kind: float(self.times.of(kind) * share) for kind in (Forward, Backward, BackwardInput, BackwardWeight)
        }
        combine = sum if self.times.overlap == "sum" else max
        pairs = {(a, b): float(combine((seconds[a], seconds[b]))) for a in seconds for b in seconds}
        for step in self.steps[rank]:
            for action in step:
                if type(action) is BackwardWeight:  # needs nothing from elsewhere, and nobody waits for it
                    continue
                needed = takes(rank, action)
                if needed in arrived:
                    arrived.remove(needed)
                elif needed is not None:
                    event = waiting[needed] = Event(engine)
                    yield event
            starts.append(engine.now)
            yield seconds[type(step[0])] if len(step) == 1 else pairs[type(step[0]), type(step[1])]
            ends.append(engine.now)
            for action in step:
                if type(action) is BackwardWeight:
                    continue
                given = gives(rank, action)
                if given is not None:
                    self._hand_on(given)
        yield from self._optimizer(rank, float(self.times.optimizer * slow))

    def _hand_on(self, transfer: Transfer) -> None:
        if transfer.source != transfer.to:
            self.messages += 1
            if self.times.p2p:
                link, now = (transfer.source, transfer.to), self.engine.now
                start = max(now, self._link_free.get(link, 0.0))
                end = self._link_free[link] = start + self.times.p2p
                self.transfers.append((transfer, start, end))
                self.engine.call(end - now, self._arrive, transfer)
                return
        self._arrive(transfer)

    def _arrive(self, transfer: Transfer) -> None:
        event = self._waiting.pop(transfer, None)
        if event is None:
            self._arrived.add(transfer)
        else:
            event.happen()

    def _optimizer(self, rank: int, seconds: float) -> Process:
        self._unfinished -= 1
        if not self._unfinished:
            self._all_finished.happen()
        if self.times.sync:
            yield self._all_finished
        if seconds:
            start = self.engine.now
            yield seconds
            self.optimizers[rank] = start, self.engine.now
