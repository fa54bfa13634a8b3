"""Who sits where: the ranks of a mesh on their machines, and the groups of one of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..markdown import sentences

if TYPE_CHECKING:
    from rich.text import Text

    from parallel.mesh import Mesh
    from sim.draw.shapes import Shape

    from ..catalogue import Catalogue

_CELL, _ROW, _LEFT, _TOP = 62.0, 58.0, 84.0, 14.0
_INK, _QUIET = "#1B2330", "#5B6675"
_GROUPS = {"tp": "#D55E00", "dp": "#0072B2", "pp": "#009E73"}  # each also has its name in the cell


@dataclass(frozen=True)
class Seats:
    """A row a machine. marked: the rank whose groups are shown; all ranks have such groups."""

    pp: int
    dp: int
    tp: int
    machine: int = 8
    marked: int = 0

    def lines(self, say: Catalogue, width: int) -> list[Text]:
        from rich.text import Text

        from ..text import wrap

        mesh = self._mesh()
        rows = mesh.seats(self.machine).split("\n")[1:]
        if max(map(len, rows)) > width:  # a line a group
            rows = [" " * 12 * bool(place) + part for row in rows for place, part in enumerate(row.split(" " * 5))]
        groups = [f"{axis}: {' '.join(map(str, mesh.ranks(axis, self.marked)))}" for axis in reversed(mesh.axes)]
        said = wrap(Text(say("page.seats.legend", axes=self._axes(), machine=self.machine), "dim"), width)
        return [
            *said,
            Text(),
            *(Text(line) for line in rows),
            Text(),
            Text(say("page.seats.groups", marked=self.marked)),
            *(Text("  " + line) for line in groups),
        ]

    def html(self, say: Catalogue) -> str:
        from html import escape

        from sim.draw.shapes import Picture

        from .markup import inline

        mesh = self._mesh()
        shapes = [shape for rank in range(mesh.size) for shape in self._cell(mesh, rank)]
        machines = mesh.size // self.machine
        shapes += [
            self._label(say("page.seats.machine", number=number), _LEFT - 12, self._y(number) + _ROW / 2 - 4)
            for number in range(machines)
        ]
        width, height = _LEFT + self.machine * _CELL + 8, _TOP + machines * _ROW
        picture = Picture(width, height, say("page.seats.title", axes=self._axes()), self._said(say), shapes)
        return f'{inline(picture)}<p class="note">{escape(self._said(say))}</p>'

    def _cell(self, mesh: Mesh, rank: int) -> Iterator[Shape]:
        """A rank: filled by its stage, its number, its place, and the axes along which the marked rank reaches it."""
        from sim.draw.palette import mix, scale
        from sim.draw.shapes import Rect, Text

        place = mesh.coordinates(rank)
        x, y = _LEFT + rank % self.machine * _CELL, self._y(rank // self.machine)
        reached = [axis for axis in _GROUPS if rank in mesh.ranks(axis, self.marked) and rank != self.marked]
        fill = mix(scale(place["pp"], self.pp), "#FFFFFF", 0.55)
        stroke = _INK if rank == self.marked else _GROUPS[reached[0]] if reached else "#FFFFFF"
        words = " ".join(f"{axis} {at}" for axis, at in place.items())
        yield Rect(x + 2, y, _CELL - 4, _ROW - 8, fill, stroke=stroke, tip=f"rank {rank}: {words}")
        if rank == self.marked or reached:
            yield Rect(x + 4, y + 2, _CELL - 8, _ROW - 12, fill, stroke=stroke)
        yield Text(x + _CELL / 2, y + 14, str(rank), 14, _INK, "middle", bold=True)
        yield Text(x + _CELL / 2, y + 28, f"{place['pp']}·{place['dp']}·{place['tp']}", 10, _INK, "middle")
        if reached:
            yield Text(x + _CELL / 2, y + 40, f"{reached[0]}", 11, _INK, "middle", bold=True)

    def _label(self, text: str, x: float, y: float) -> Shape:
        from sim.draw.shapes import Text

        return Text(x, y, text, 11, _QUIET, "end")

    def _y(self, row: int) -> float:
        return _TOP + row * _ROW

    def _mesh(self) -> Mesh:
        from parallel.mesh import Mesh

        return Mesh(pp=self.pp, dp=self.dp, tp=self.tp)

    def _axes(self) -> str:
        return " × ".join(f"{axis} {size}" for axis, size in self._mesh().axes.items())

    def _said(self, say: Catalogue) -> str:
        legend = say("page.seats.legend", axes=self._axes(), machine=self.machine)
        return sentences([legend, say("page.seats.framed", marked=self.marked)])
