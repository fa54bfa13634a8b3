"""A schedule read for its messages: with whom, how long, how much is combined; not which chunks they are."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from collectives.messages import PackedStep, twin, unroll
from collectives.schedule import Schedule


class Step(NamedTuple):
    """One step of one rank that has messages.

    sends: (to, chunks), in the order in which they leave; receives: sources; reduced: chunks that are combined after.
    """

    sends: tuple[tuple[int, int], ...]
    receives: tuple[int, ...]
    reduced: int


@lru_cache(maxsize=4)  # a sweep over sizes reads the same again and again
def read(schedule: Schedule, size: int, channel: int) -> list[list[Step]]:
    """The steps of every rank; a symmetric schedule is read for rank 0 alone. O(messages), plus operations read."""
    if not schedule.symmetric:
        return [_steps(unroll(schedule, rank, size, channel), rank) for rank in range(size)]
    first, row = _steps(unroll(schedule, 0, size, channel), 0), schedule.row(size)
    return [[_moved(step, rank, size, row) for step in first] for rank in range(size)]


def read_first(schedule: Schedule, size: int) -> list[Step]:
    """The steps of rank 0 in channel 0."""
    return _steps(unroll(schedule, 0, size), 0)


def _moved(step: Step, rank: int, size: int, row: int) -> Step:
    sends = tuple([(twin(to, rank, size, row), chunks) for to, chunks in step.sends])
    return Step(sends, tuple([twin(source, rank, size, row) for source in step.receives]), step.reduced)


def _steps(packed: list[PackedStep], rank: int) -> list[Step]:
    steps = []
    for step in packed:
        sends = tuple([(to, len(places)) for to, places in step.sends.items() if to != rank])
        receives = tuple([source for source in step.receives if source != rank])
        if sends or receives:
            reduced = sum(reduces for s, places in step.receives.items() if s != rank for _, reduces in places)
            steps.append(Step(sends, receives, reduced))
    return steps
