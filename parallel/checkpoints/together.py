"""One piece of work on every rank, with one outcome: all have all results, or all raise what went wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.distributed as dist


def together(work: Callable[[], Any] | None, consequence: str = "") -> list[Any]:
    """What ``work()`` gives on every rank, by rank (None where there is none to do). All ranks call it.

    Args:
        consequence: what it means if it goes wrong, for the message.

    Raises:
        OSError, ValueError: as raised on some rank, named; other errors stay with their rank.
    """
    mine: tuple[Any, OSError | ValueError | None] = None, None
    try:
        mine = work() if work is not None else None, None
    except (OSError, ValueError) as error:
        mine = None, error
    everyone: list[Any] = [None] * dist.get_world_size()
    said = None if mine[1] is None else (isinstance(mine[1], OSError), str(mine[1]))
    dist.all_gather_object(everyone, (mine[0], said))
    for rank, (_, problem) in enumerate(everyone):
        if problem is not None:
            of_system, text = problem
            kind = OSError if of_system else ValueError
            raise kind("; ".join(part for part in (f"rank {rank}: {text}", consequence) if part)) from mine[1]
    return [result for result, _ in everyone]
