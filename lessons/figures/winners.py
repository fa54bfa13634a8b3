"""Strategies beside each other where they matter: each with its best plan, as fast as it is, or what it lacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

    from sim.draw.shapes import Shape

    from ..catalogue import Catalogue

STRATEGIES = (
    "DDP",
    "ZeRO-1",
    "ZeRO-2",
    "ZeRO-3 (FSDP)",
    "ZeRO-Offload",
    "TP + DP",
    "PP + DP",
    "PP + TP + DP",
    "PP + TP + DP + ZeRO-1",
)
_LEFT, _WIDE, _HIGH = 168.0, 138.0, 30.0
_INK, _BAR, _BEST, _PAPER = "#1B2330", "#56B4E9", "#009E73", "#E8ECF1"


@dataclass(frozen=True)
class Case:
    """A model on so many GPUs. batch: samples of a step; slower: how many times the network between machines is."""

    model: str
    gpus: int
    batch: int
    gpu: str = "a100"
    slower: int = 1


@dataclass(frozen=True)
class Cell:
    """seconds of a step, 0 where nothing fits; least: bytes that the smallest plan needs."""

    seconds: float
    least: float
    plan: str


@dataclass(frozen=True)
class Winners:
    """A column a case, a row a strategy: how many times as long a step takes as with the best."""

    cases: tuple[Case, ...]

    def lines(self, say: Catalogue, width: int) -> list[Text]:
        from rich.text import Text

        from ..text import table, wrap

        head = [Text(""), *(Text("\n".join(self._heads(case, say)), "bold") for case in self.cases)]
        rows = [head]
        for name in STRATEGIES:
            cells = [self._words(found(case), name, say) for case in self.cases]
            rows.append([Text(name), *(Text(text, "green" * best) for text, best in cells)])
        lines = table(rows, [False, *[True] * len(self.cases)], width)
        return [*lines, Text(), *wrap(Text(say("page.winners.legend"), "dim"), width)]

    def html(self, say: Catalogue) -> str:
        from sim.draw.shapes import Picture, Text, text_width

        from .markup import data_table, inline

        shapes: list[Shape] = []
        heads = [self._heads(case, say) for case in self.cases]
        wide = max(_WIDE, *(text_width(text, 11) + 10 for head in heads for text in head))
        top = 18 + 14 * max(map(len, heads))
        for column, case in enumerate(self.cases):
            x = _LEFT + column * wide
            for row, text in enumerate(heads[column]):
                shapes.append(Text(x + 4, 12 + 14 * row, text, 11, _INK, bold=not row))
            for row, name in enumerate(STRATEGIES):
                shapes += self._cell(case, name, x, top + row * _HIGH, wide - 8, say)
        for row, name in enumerate(STRATEGIES):
            shapes.append(Text(_LEFT - 10, top + row * _HIGH + _HIGH / 2 - 3, name, 11, _INK, "end"))
        width, height = _LEFT + len(self.cases) * wide + 6, top + len(STRATEGIES) * _HIGH
        legend = say("page.winners.legend")
        picture = inline(Picture(width, height, say("page.winners.title"), legend, shapes))
        rows = [[name, *(self._plan(found(case), name) for case in self.cases)] for name in STRATEGIES]
        return f'{picture}<p class="note">{legend}</p>' + data_table(
            ["", *map(", ".join, heads)], rows, say("page.winners.plans")
        )

    def _cell(self, case: Case, name: str, x: float, y: float, room: float, say: Catalogue) -> Sequence[Shape]:
        """A bar as long as the strategy is fast, and what it says."""
        from sim.draw.shapes import Rect, Text

        cells = found(case)
        text, best = self._words(cells, name, say)
        cell = cells.get(name)
        shapes: list[Shape] = [Rect(x + 2, y, room, _HIGH - 6, _PAPER, tip=self._plan(cells, name))]
        if cell is not None and cell.seconds:
            share = fastest(cells) / cell.seconds
            shapes.append(Rect(x + 2, y, room * share, _HIGH - 6, _BEST if best else _BAR, "" if best else "hatch"))
            shapes.append(Rect(x + 6, y + 4, 44 + 6 * best, _HIGH - 14, _PAPER))
        return [*shapes, Text(x + 9, y + _HIGH / 2 - 3, text, 11, _INK, bold=best)]

    def _words(self, cells: dict[str, Cell], name: str, say: Catalogue) -> tuple[str, bool]:
        """What stands in a cell, and whether it is the best."""
        cell = cells.get(name)
        if cell is None:
            return "–", False
        if not cell.seconds:
            return f"{cell.least / 1e9:,.0f} GB", False
        ratio = cell.seconds / fastest(cells)
        best = ratio == 1
        return f"{ratio:.2f}×" + " *" * best, best

    def _plan(self, cells: dict[str, Cell], name: str) -> str:
        return cells[name].plan if name in cells else "–"

    def _heads(self, case: Case, say: Catalogue) -> list[str]:
        gpus = f"{case.gpus:,} × {case.gpu.upper()}"
        return [case.model, gpus, *([say("page.winners.slower", times=case.slower)] if case.slower > 1 else [])]


def fastest(cells: dict[str, Cell]) -> float:
    """Seconds of the best strategy."""
    return min(cell.seconds for cell in cells.values() if cell.seconds)


@cache
def found(case: Case) -> dict[str, Cell]:
    """Each strategy's best plan, by the planner: 1F1B, no context parallelism, overlap; a closed form for each plan."""
    from sim.chip import chip_of
    from sim.commands.plan_report import short
    from sim.planner.advice import strategies
    from sim.planner.constants import software_of
    from sim.planner.hardware import hardware_of
    from sim.planner.layout import Layout
    from sim.planner.models import MODELS
    from sim.planner.search import search
    from sim.planner.space import space_of

    hardware = hardware_of(chip_of(case.gpu))
    hardware = replace(hardware, nic=hardware.nic / case.slower)
    fixed = {"schedule": "1f1b", "cp": 1, "overlap": True, "ep": 1}
    space = replace(
        space_of(MODELS[case.model], case.gpus, Layout(global_batch=case.batch), fixed), offload=((), ("optimizer",))
    )
    result = search(MODELS[case.model], space, hardware, software_of("", case.gpu))
    return {
        str(choice.value): Cell(
            choice.seconds, choice.least, short(result.plan(choice.number).layout) if choice.number >= 0 else "–"
        )
        for choice in strategies(result)
        if choice.value in STRATEGIES
    }
