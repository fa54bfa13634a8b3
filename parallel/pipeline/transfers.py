"""``with_transfers``: the sends and receives of a schedule, which the schedule does not say.

After ``Forward`` the activation goes to the rank of the next virtual stage, after ``Backward`` or ``BackwardInput`` the
gradient to that of the stage before; on one rank it is handed over, without a message. When to post them is the
question. Nothing may buffer a send (NCCL's waits for its receive), so two ranks that send to each other at once, or a
receive that is posted where it is needed and not where it was sent, stop the pipeline. The answer:

    Run the schedule on a clock, F = I = W = 1 and B = 2 slots. A message that leaves at time t belongs, *on both ends*,
    to the exchange after the last step that began before t. All of an exchange is posted at once.

::

    1F1B, p=2, m=2; a: activation, g: gradient, │ parts steps and exchanges
    rank 0   F0 │ send a0 │ F1 │ send a1, receive g0 │ B0 │ receive g1 │ B1
    rank 1   receive a0 │ F0 │ receive a1 │ B0 │ send g0 │ F1 │ B1 │ send g1

No cycle of ranks can wait for each other: of all messages that wait, take one that left first, at t. An end that has
not come to its exchange is held up by an earlier exchange or by a step that began before t, so by a message that left
before t, and there is none. A message is received when it is sent, not when it is needed; so a rank never waits with
its send for the receiver to need it, and the receiver keeps it until then.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from collectives.errors import ScheduleError
from collectives.waits import Wait, find_cycle

from .schedule import Backward, PipelineSchedule, Step
from .stages import Stages, Transfer


@dataclass(frozen=True, slots=True)
class Exchange:
    """Sends and receives that are posted together; each may complete by itself, messages of two ranks in this order."""

    sends: tuple[Transfer, ...]
    receives: tuple[Transfer, ...]


Turn: TypeAlias = Step | Exchange


def with_transfers(
    schedule: PipelineSchedule, ranks: int, microbatches: int, chunks: int | None = None
) -> list[list[Turn]]:
    """What each rank computes, and between that, what it sends and receives. O(all actions).

    Every rank can work this out by itself, since a schedule is a pure function; nothing has to be agreed.

    Raises:
        ValueError: impossible numbers, or (``ScheduleError``) a schedule whose ranks wait for each other.
    """
    stages = Stages(schedule, ranks, chunks)
    programs = [schedule.steps(rank, ranks, microbatches, chunks) for rank in range(ranks)]
    starts, departures = _clock(schedule, programs, stages)
    sends: list[defaultdict[int, list[Transfer]]] = [defaultdict(list) for _ in programs]
    receives: list[defaultdict[int, list[Transfer]]] = [defaultdict(list) for _ in programs]
    for transfer, time in sorted(departures.items(), key=lambda item: item[1]):
        if transfer.source != transfer.to:
            sends[transfer.source][bisect_left(starts[transfer.source], time)].append(transfer)
            receives[transfer.to][bisect_left(starts[transfer.to], time)].append(transfer)
    turns: list[list[Turn]] = []
    for rank, program in enumerate(programs):
        turns.append([])
        for place, step in enumerate([*program, None]):  # an exchange may come before the first step and after the last
            if place in sends[rank] or place in receives[rank]:
                turns[rank].append(Exchange(tuple(sends[rank][place]), tuple(receives[rank][place])))
            if step is not None:
                turns[rank].append(step)
    return turns


def _clock(
    schedule: PipelineSchedule, programs: Sequence[Sequence[Step]], stages: Stages
) -> tuple[list[list[int]], dict[Transfer, int]]:
    """In which slot each step of each rank starts, and in which each transfer leaves."""
    starts: list[list[int]] = [[] for _ in programs]
    free = [0] * len(programs)
    left: dict[Transfer, int] = {}
    waiting: dict[Transfer, int] = {}
    runnable = list(range(len(programs)))
    while runnable:
        rank = runnable.pop()
        for step in programs[rank][len(starts[rank]) :]:
            needs = [transfer for action in step if (transfer := stages.takes(rank, action)) is not None]
            missing = next((transfer for transfer in needs if transfer not in left), None)
            if missing is not None:
                waiting[missing] = rank
                break
            start = max([free[rank], *(left[transfer] for transfer in needs)])
            starts[rank].append(start)
            free[rank] = start + sum(2 if type(action) is Backward else 1 for action in step)
            for action in step:
                gives = stages.gives(rank, action)
                if gives is not None:
                    left[gives] = free[rank]
                    if gives in waiting and gives.to != rank:
                        runnable.append(waiting.pop(gives))
    if waiting:
        raise _stuck(schedule, programs, starts, waiting)
    return starts, left


def _stuck(
    schedule: PipelineSchedule,
    programs: Sequence[Sequence[Step]],
    starts: Sequence[Sequence[int]],
    waiting: dict[Transfer, int],
) -> ScheduleError:
    """Why nobody goes on: a cycle of ranks, or something that never comes."""
    missing = {rank: transfer for transfer, rank in waiting.items()}

    def says(rank: int) -> str:
        at = len(starts[rank])
        step = " and ".join(str(action) for action in programs[rank][at])
        source = "itself" if missing[rank].source == rank else f"rank {missing[rank].source}"
        return f"rank {rank} at step {at}, {step}, waits for {missing[rank]} from {source}"

    waits = {rank: Wait(rank, transfer.source, "receive", len(starts[rank])) for rank, transfer in missing.items()}
    cycle = [wait.rank for wait in find_cycle(waits)]
    if cycle:
        chain = "; ".join(says(rank) for rank in cycle[:6]) + ("; …" if len(cycle) > 6 else "")
        fix = "let one of them do first what the next waits for" if len(cycle) > 1 else "do first what is waited for"
        return ScheduleError(f"{schedule}: deadlock: {chain}; {fix}", "deadlock", cycle[0], len(starts[cycle[0]]))
    rank = next(rank for rank, transfer in missing.items() if transfer.source not in missing)
    return ScheduleError(
        f"{schedule}: {says(rank)}, which never gives it; let rank {missing[rank].source} compute it",
        "missing",
        rank,
        len(starts[rank]),
    )
