"""A pipeline's timetable in letters: a row a rank, a cell a slot, as the library draws its schedules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from .catalogue import Catalogue
from .picture import WIDTH

if TYPE_CHECKING:
    from parallel.pipeline import Action
    from sim.pipeline import PipelineRun


def timeline_lines(run: PipelineRun, planned: Sequence[Sequence[Action]], say: Catalogue) -> Iterator[str]:
    """What was carried out, in slots of the run's clock; a cross before what a rank waits for ever to do.

    planned: all that each rank was to do. Where it is too wide, what is around the first cross, or the beginning.
    """
    rows = [_cells(run, rank, actions) for rank, actions in enumerate(planned)]
    count = max(map(len, rows), default=0)
    if not count:
        return
    wide = max(2, *(len(cell) for row in rows for cell in row))
    names = [say("picture.rank", rank=rank) for rank in range(len(rows))]
    room = (WIDTH - max(map(len, names)) - 4) // (wide + 1)
    crosses = [at for row in rows for at, cell in enumerate(row) if cell.startswith("✗")]
    first = max(0, min(count - room, min(crosses, default=0) - room // 2))
    for name, row in zip(names, rows, strict=True):
        cells = [*row, *[".."] * (count - len(row))][first : first + room]
        before, after = "… " * (first > 0), " …" * (first + room < count)
        yield f"{name}  {before}{' '.join(cell.ljust(wide) for cell in cells).rstrip()}{after}"
    yield say("picture.timetable")


def _cells(run: PipelineRun, rank: int, actions: Sequence[Action]) -> list[str]:
    """A text for each slot of a rank."""
    cells: list[str] = []
    steps = zip(run.steps[rank], run.starts[rank], run.ends[rank], strict=True)
    for step, start, end in steps:
        cells += [".."] * (round(start) - len(cells))
        cells += [_text(step[0])] * (round(end) - round(start))
    if len(run.steps[rank]) < len(actions):
        cells.append("✗" + _text(actions[len(run.steps[rank])]))
    return cells


def _text(action: Action) -> str:
    """``F0``; chunk 1 is marked ``:``, chunk 2 ``::``."""
    from parallel.pipeline.schedule import LETTERS

    return f"{LETTERS[type(action)]}{action.microbatch}{':' * action.chunk}"
