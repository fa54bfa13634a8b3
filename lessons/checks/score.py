"""A timetable of the learner's on the simulator's clock, in a table beside the library's. No verdict."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..answer import Answer
from ..catalogue import Catalogue
from ..said import Said, Shown
from .measurement import WIDTH, Measurement
from .timetable import Size, timetable

if TYPE_CHECKING:
    from rich.text import Text

    from parallel.pipeline import PipelineSchedule
    from sim.pipeline import PipelineRun


@dataclass(frozen=True)
class Score(Measurement):
    """The bubble of ``function`` and what its fullest rank holds, beside the schedules ``against``.

    courses: (size, what W takes of a backward of two slots).
    """

    function: str
    against: tuple[str, ...]
    courses: tuple[tuple[Size, float], ...]

    def shown(self, answer: Answer, say: Catalogue, ranks: tuple[int, ...] = ()) -> Iterator[Said | Shown]:
        from parallel.pipeline import find

        entrants: list[str | PipelineSchedule] = [timetable(answer, self.function), *map(find, self.against)]
        table = [(str(entrant), [self._run(entrant, *course) for course in self.courses]) for entrant in entrants]
        table.sort(key=lambda row: [round(run.bubble_fraction, 9) for run in row[1]])
        (size, weight), first = self.courses[0], {name: runs[0] for name, runs in table}
        mine = first.pop(self.function)
        fields = {
            "function": self.function,
            "ranks": size.ranks,
            "microbatches": size.microbatches,
            "weight": f"{weight:g}",
            "bubble": f"{mine.bubble_fraction:.1%}",
            "held": f"{max(mine.peak_activations):.4g}",
        }
        numbers = [
            {
                "schedule": name,
                "bubble": [r.bubble_fraction for r in runs],
                "held": [max(r.peak_activations) for r in runs],
            }
            for name, runs in table
        ]
        details = self._par(mine, first), Said("score.legend")
        yield Shown(Said("score.yours", fields), tuple(self._table(table, say)), details, {"score": numbers})

    def _par(self, mine: PipelineRun, others: Mapping[str, PipelineRun]) -> Said:
        """The smallest bubble of those that hold no more, of as many pieces of the model; and where ``mine`` stands."""
        alike = {
            name: run.bubble_fraction
            for name, run in others.items()
            if run.stages.chunks == mine.stages.chunks and max(run.peak_activations) <= max(mine.peak_activations)
        }
        if not alike:
            return Said("score.alone")
        best = min(alike, key=lambda name: alike[name])
        fields = {"best": best, "par": f"{alike[best]:.1%}"}
        if math.isclose(mine.bubble_fraction, alike[best], abs_tol=1e-9):
            return Said("score.level", fields)
        return Said("score.under" if mine.bubble_fraction < alike[best] else "score.over", fields)

    def _run(self, schedule: str | PipelineSchedule, size: Size, weight: float) -> PipelineRun:
        from sim.pipeline import Times, simulate

        chunks = None if isinstance(schedule, str) or schedule.name != self.function else size.chunks
        return simulate(schedule, size.ranks, size.microbatches, chunks, Times(1, 2, weight))

    def _table(self, rows: list[tuple[str, list[PipelineRun]]], say: Catalogue) -> Iterator[str]:
        from rich.text import Text

        from ..text import table

        heads = [say("score.schedule")]
        for size, weight in self.courses:
            heads += [say("score.course", ranks=size.ranks, microbatches=size.microbatches, weight=f"{weight:g}")]
        cells: list[list[Text]] = [[Text(head) for head in heads]]
        for name, runs in rows:
            mark = "→ " if name == self.function else "  "
            held = [f"{run.bubble_fraction:6.1%} / {max(run.peak_activations):.3g}" for run in runs]
            cells.append([Text(mark + name), *map(Text, held)])
        return (line.plain for line in table(cells, [False] + [True] * len(self.courses), WIDTH))
