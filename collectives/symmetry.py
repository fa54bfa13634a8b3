"""Do all ranks do the same, as a schedule that is ``symmetric`` says?"""

from __future__ import annotations

from .contract import BLOCK_ONLY
from .errors import ScheduleError
from .messages import PackedStep, chunks_of, twin, unroll
from .schedule import Chunk, Operation, Schedule, Send
from .sentence import Sentence


def check_symmetry(schedule: Schedule, size: int, channel: int) -> None:
    """Every rank does what rank 0 does, shifted; or, in rows, has messages of the same lengths. O(all operations).

    Raises:
        ScheduleError: the schedule says so, and it is not so.
    """
    if callable(schedule.symmetric):
        _check_rows(schedule, size, channel)
    elif schedule.symmetric:
        _check_shift(schedule, size, channel)


def _check_shift(schedule: Schedule, size: int, channel: int) -> None:
    chunks = chunks_of(schedule, size)
    own = {"scratch", BLOCK_ONLY.get(schedule.collective)}  # buffers that each rank numbers for itself

    def shift(operation: Operation, by: int) -> Operation:
        chunk = operation.chunk
        if not (isinstance(chunk, Chunk) and chunk.buffer in own):
            index = chunk.index if isinstance(chunk, Chunk) else chunk
            moved = (index + by * chunks // size) % chunks
            chunk = Chunk(chunk.buffer, moved) if isinstance(chunk, Chunk) else moved
        if isinstance(operation, Send):
            return Send(chunk, (operation.to + by) % size)
        return type(operation)(chunk, (operation.source + by) % size)

    pattern = list(schedule.steps(0, size, channel))
    for rank in range(1, size):
        steps = list(schedule.steps(rank, size, channel))
        for index in range(max(len(steps), len(pattern))):
            wanted = tuple(shift(o, rank) for o in pattern[index]) if index < len(pattern) else ()
            if (steps[index] if index < len(steps) else ()) != wanted:
                raise ScheduleError(
                    Sentence(
                        "symmetry.no_shift",
                        "rank {rank} does not do at step {step} what rank 0 does, shifted by {rank}: "
                        "leave symmetric=True away",
                        rank=rank,
                        step=index,
                    ),
                    "order",
                )


def _check_rows(schedule: Schedule, size: int, channel: int) -> None:
    """Every rank has messages of the same lengths as rank 0, in the same steps, with its twins."""
    row = schedule.row(size)
    pattern = unroll(schedule, 0, size, channel)
    for rank in range(1, size):
        steps = unroll(schedule, rank, size, channel)
        for index in range(max(len(steps), len(pattern))):
            mine = _lengths(steps[index], size, row, 0) if index < len(steps) else None
            if index >= len(pattern) or mine != _lengths(pattern[index], size, row, rank):
                raise ScheduleError(
                    Sentence(
                        "symmetry.no_rows",
                        "rank {rank} does not do at step {step} what rank 0 does, in rows of {row}: "
                        "leave symmetric away",
                        rank=rank,
                        step=index,
                        row=row,
                    ),
                    "order",
                )


def _lengths(step: PackedStep, size: int, row: int, rank: int) -> tuple[dict[int, int], dict[int, tuple[int, int]]]:
    return (
        {twin(to, rank, size, row): len(places) for to, places in step.sends.items()},
        {
            twin(source, rank, size, row): (len(places), sum(reduces for _, reduces in places))
            for source, places in step.receives.items()
        },
    )
