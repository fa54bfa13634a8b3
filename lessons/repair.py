"""The smallest change that makes a wrong schedule right: it names the mistake better than its consequences do.

The candidates are the slips that people make (``slips``), each undone. One counts if the prover accepts what it makes
of the schedule for every number of ranks tried, which takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from collectives.proof import prove
from collectives.schedule import Schedule, Step

from .edits import Edit
from .said import Said
from .slips import slips


def find_repair(schedule: Callable[[int], Schedule], sizes: Sequence[int]) -> Said | None:
    """What is wrong with a schedule, if undoing one slip makes it right for all ``sizes``; O(slips · operations).

    Args:
        schedule: makes it for a number of ranks; the hardest size comes first.
    """

    @cache
    def read(size: int) -> list[list[Step]]:
        return [list(schedule(size).steps(rank, size)) for rank in range(size)]

    def holds(edit: Edit, size: int) -> bool:
        asked = schedule(size)
        chunks = asked.chunk_count(size)
        try:
            steps = read(size)
            edited = [edit(one, rank, size, chunks) for rank, one in enumerate(steps)]
            if edited == steps and size == sizes[0]:  # where it is wrong
                return False
            prove(Schedule(asked.collective, lambda rank, size: edited[rank], chunks), size)
        except Exception:  # refused, or the learner's program raised
            return False
        return True

    try:
        longest = max(map(len, read(sizes[0])))
    except Exception:  # the learner's program
        return None
    first = schedule(sizes[0])
    for slip in slips(first.collective, min(longest, 12), first.chunk_count(sizes[0])):
        if all(holds(slip.edit, size) for size in sizes):
            return slip.sentence
    return None
