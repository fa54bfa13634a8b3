"""The time of several algorithms over the size of the buffer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

    from ..catalogue import Catalogue

Times = Mapping[str, Sequence[float]]  # algorithm → seconds at each size


@dataclass(frozen=True)
class Sweep:
    """Times from ``smallest`` to ``largest`` bytes, the fastest marked. machine: as for ``--machine``."""

    algorithms: tuple[str, ...]
    ranks: int
    collective: str = "all_reduce"
    machine: str = "ring"
    smallest: int = 1 << 10
    largest: int = 1 << 30

    def lines(self, say: Catalogue, width: int) -> list[Text]:
        from rich.text import Text

        from sim.units import show_bytes

        from ..text import table, wrap

        sizes = self.sizes(64)
        times = self.times(sizes)
        rows = [[Text(say("page.sweep.size"), "bold"), *(Text(name, "bold") for name in times)]]
        for at, nbytes in enumerate(sizes):
            least = min(row[at] for row in times.values())
            cells = [Text(self._cell(row[at], least), "green" * (row[at] == least)) for row in times.values()]
            rows.append([Text(show_bytes(nbytes)), *cells])
        lines = table(rows, [True] * len(rows[0]), width)
        if len(times) == 1:
            lines = _with_bars(lines, next(iter(times.values())), width)
        fields = {"collective": self.collective, "ranks": self.ranks, "machine": self.machine}
        legend = say("page.sweep.alone" if len(times) == 1 else "page.sweep.legend", **fields)
        return [*lines, Text(), *wrap(Text(legend, "dim"), width)]

    def html(self, say: Catalogue) -> str:
        from sim.units import show_bytes, show_time

        from .axis import across, upwards
        from .curves import curves
        from .markup import data_table, inline

        sizes = self.sizes(4)
        times = self.times(sizes)
        fields = {"collective": self.collective, "ranks": self.ranks, "machine": self.machine}
        axes = across(sizes, show_bytes), upwards([one for row in times.values() for one in row], show_time)
        fastest = say("page.sweep.fastest") if len(times) > 1 else ""
        picture = curves(sizes, times, say("page.sweep.title", **fields), axes, fastest=fastest)
        rows = []
        for at, nbytes in enumerate(sizes):
            least = min(row[at] for row in times.values())
            rows.append([show_bytes(nbytes), *(self._cell(row[at], least) for row in times.values())])
        numbers = data_table([say("page.sweep.size"), *times], rows, say("page.numbers"))
        return inline(picture) + numbers

    def _cell(self, seconds: float, least: float) -> str:
        """A time; the fastest of several has a star."""
        from sim.units import show_time

        return show_time(seconds) + (" *" if seconds == least else "  ") * (len(self.algorithms) > 1)

    def sizes(self, factor: int) -> list[int]:
        sizes = [self.smallest]
        while sizes[-1] * factor <= self.largest:
            sizes.append(sizes[-1] * factor)
        return sizes

    def times(self, sizes: Sequence[int]) -> Times:
        from collectives.registry import find
        from sim.collective import simulate
        from sim.presets import find_machine

        machine = find_machine(self.machine)
        network = machine.network(ranks=self.ranks)
        schedules = [find(self.collective, name) for name in self.algorithms]
        return {
            str(schedule): [simulate(schedule, network, nbytes, machine.costs).time_s for nbytes in sizes]
            for schedule in schedules
        }


def _with_bars(lines: Sequence[Text], seconds: Sequence[float], width: int) -> list[Text]:
    """The table with a bar behind each time, which is as long as the time has digits: a curve that lies on its side."""
    from math import log10

    from rich.text import Text

    left = max(line.cell_len for line in lines) + 2
    room = min(width - left, 50)
    low, high = log10(min(seconds) / 2), log10(max(seconds))
    bars = ["", "", *("█" * round(room * (log10(one) - low) / (high - low)) for one in seconds)]
    return [line + Text(" " * (left - line.cell_len) * bool(bar) + bar) for line, bar in zip(lines, bars, strict=True)]
