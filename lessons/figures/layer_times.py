"""What a layer's forward consists of, computing and sums, over the ranks that share it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

    from sim.draw.shapes import Picture, Shape

    from ..catalogue import Catalogue

_INK = "#1B2330"
_LEFT, _WIDTH, _ROW, _TOP, _SIZE = 64.0, 420.0, 26.0, 66.0, 13.0


@dataclass(frozen=True)
class LayerTimes:
    """Bars of seconds, one a number of ranks, for each machine. machines: GPU and preset; model: as for ``--model``."""

    machines: tuple[tuple[str, str], ...]
    model: str = "gpt3-175b"
    ranks: tuple[int, ...] = (1, 2, 4, 8, 16, 32)

    def seconds(self, gpu: str, machine: str, ranks: int) -> tuple[float, float]:
        """Of computing, and of sums."""
        from sim.chip import chip_of
        from sim.planner.constants import software_of
        from sim.planner.hardware import hardware_of
        from sim.planner.layout import Layout
        from sim.planner.models import MODELS
        from sim.planner.work import layer_work
        from sim.presets import find_machine

        hardware = hardware_of(chip_of(gpu), find_machine(machine))
        work = layer_work(MODELS[self.model], Layout(tp=ranks), hardware, software_of(chip=gpu))
        return float(work.forward), float(work.tp)

    def lines(self, say: Catalogue, width: int) -> list[Text]:
        from rich.text import Text

        from sim.units import show_time

        from ..text import wrap

        lines: list[Text] = []
        for gpu, machine in self.machines:
            times = {ranks: self.seconds(gpu, machine, ranks) for ranks in self.ranks}
            room = width - 30
            unit = max(map(sum, times.values())) / room
            lines += wrap(Text(self._title(machine, say), "bold"), width)
            for ranks, (computing, sums) in times.items():
                whole, first = round((computing + sums) / unit), round(computing / unit)
                bar = Text("█" * first) + Text("▒" * (whole - first))
                row = Text(f"TP {ranks:<3}") + bar
                row.append(f" {show_time(computing + sums)}, {sums / (computing + sums):.0%}")
                lines.append(row)
            lines.append(Text())
        return [*lines, *wrap(Text(say("tensor.figure.layer_legend"), "dim"), width)]

    def html(self, say: Catalogue) -> str:
        from .markup import inline

        pictures = "".join(inline(self._picture(gpu, machine, say)) for gpu, machine in self.machines)
        return f'<div class="chains">{pictures}</div><p class="note">{escape(say("tensor.figure.layer_legend"))}</p>'

    def _title(self, machine: str, say: Catalogue) -> str:
        return say("tensor.figure.layer", model=self.model, machine=machine)

    def _picture(self, gpu: str, machine: str, say: Catalogue) -> Picture:
        from sim.draw.shapes import Picture, Text, text_width
        from sim.units import show_time

        times = {ranks: self.seconds(gpu, machine, ranks) for ranks in self.ranks}
        scale = _WIDTH / max(map(sum, times.values()))
        title = self._title(machine, say)
        shapes: list[Shape] = [Text(12, 20, title, 14, _INK, bold=True), *self._legend(say)]
        told = []
        for row, (ranks, (computing, sums)) in enumerate(times.items()):
            y = _TOP + row * _ROW
            label = f"{show_time(computing + sums)}, {sums / (computing + sums):.0%}"
            told.append(f"TP {ranks}: {label}")
            shapes.append(Text(_LEFT - 8, y + 9, f"TP {ranks}", _SIZE, _INK, "end"))
            shapes += self._bar(_LEFT, y, computing * scale, sums * scale)
            shapes.append(Text(_LEFT + (computing + sums) * scale + 8, y + 9, label, _SIZE, _INK))
        width = max(_LEFT + _WIDTH + 130, 24 + text_width(title, 14))
        return Picture(width, _TOP + len(times) * _ROW + 8, title, "; ".join(told), shapes)

    def _legend(self, say: Catalogue) -> Iterator[Shape]:
        from sim.draw.shapes import Text, drawn_width

        x = _LEFT
        for name, parts in (("computing", (12.0, 0.0)), ("sums", (0.0, 12.0))):
            word = say(f"tensor.figure.{name}")
            yield from self._bar(x, 38, *parts, high=12)
            yield Text(x + 18, 44, word, _SIZE, _INK)
            x += 46 + drawn_width(word, _SIZE)

    def _bar(self, x: float, y: float, computing: float, sums: float, high: float = 18) -> Iterator[Shape]:
        from sim.draw.palette import INKS
        from sim.draw.shapes import Rect

        if computing:
            yield Rect(x, y, computing, high, INKS["F"].light)
        if sums:
            yield Rect(x + computing, y, sums, high, INKS["collective"].light, "hatch")
