"""The pipeline schedules by name: the built-in ones, and a user's own from a file."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

from collectives.registry import attribute, load

from . import dualpipev, looped, one_chunk, v_shape, zero_bubble
from .schedule import PipelineSchedule


def schedules() -> list[PipelineSchedule]:
    """The built-in schedules, from the simplest on."""
    modules = (one_chunk, looped, zero_bubble, v_shape, dualpipev)
    return [schedule for module in modules for schedule in module.SCHEDULES]


def find(name: str | PipelineSchedule) -> PipelineSchedule:
    """The schedule that a user means.

    Args:
        name: a ``PipelineSchedule``; the name of a built-in one; or ``FILE.py:name``, where the name is a schedule, or
            a program ``(rank, ranks, microbatches, chunks)``, which then runs with 1 chunk unless more are asked for.

    Raises:
        ValueError: nothing of that name; the nearest names are listed.
    """
    if isinstance(name, PipelineSchedule):
        return name
    for schedule in schedules():
        if schedule.name == name.lower():
            return schedule
    if ".py:" in name:
        path, _, wanted = name.partition(".py:")
        try:
            found = attribute(load(Path(path + ".py")), wanted, name)
        except ValueError as error:  # it speaks of the algorithms of collectives
            raise ValueError(re.sub("^algorithm", "schedule", str(error))) from error
        if isinstance(found, PipelineSchedule):
            return found
        if callable(found):
            return PipelineSchedule(wanted, found, flexible=True)
        raise ValueError(
            f"schedule {name!r} is of type {type(found).__name__}: "
            "use a PipelineSchedule or a function (rank, ranks, microbatches, chunks)"
        )
    names = [schedule.name for schedule in schedules()]
    near = difflib.get_close_matches(name.lower(), names, n=3) or names
    raise ValueError(f"schedule {name!r} is unknown: use {', '.join(near)}, or FILE.py:name for your own")
