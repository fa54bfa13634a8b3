"""Who holds which block of matrices that are multiplied one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Literal, TypeAlias

from ..markdown import sentences

if TYPE_CHECKING:
    from rich.text import Text

    from sim.draw.shapes import Picture, Shape

    from ..catalogue import Catalogue

_INK, _MUTED, _SAME = "#1B2330", "#5B6675", "#E3E7EC"
_LETTERS, _UNIT, _GAP, _SHEET = 4, 56.0, 14.0, 7.0  # of a unit of width: letters, pixels; between; of a stack


@dataclass(frozen=True)
class Matrix:
    """shape: as it is written below. height, width: in units. held: by whom: every rank the same, a run of rows or
    columns each, or each rank a summand of it. parts: of equal length along what is cut, each cut by itself. labels:
    in place of the name, what stands in its columns.
    """

    name: str
    shape: str
    held: Literal["all", "rows", "columns", "sum"]
    height: int = 1
    width: int = 1
    parts: int = 1
    labels: tuple[str, ...] = ()

    def runs(self, ranks: int, length: int) -> list[tuple[int, int, int]]:
        """(rank, first, count) of every run along what is cut, which is so long."""
        from parallel.tensor.split import Split

        split = Split(0, (length // self.parts,) * self.parts)
        return [(rank, *run) for rank in range(ranks) for run in split.ranges(rank, ranks)]

    def owner(self, row: int, column: int, ranks: int, rows: int, columns: int) -> str:
        """Whose the cell is, of a drawing with so many rows and columns."""
        if self.held in ("all", "sum"):
            return "•" if self.held == "all" else "+"
        place, length = (row, rows) if self.held == "rows" else (column, columns)
        return next(str(rank) for rank, first, count in self.runs(ranks, length) if first <= place < first + count)


Chain: TypeAlias = tuple[str, tuple[Matrix | str, ...]]  # the id of its title, then matrices with signs between them


@dataclass(frozen=True)
class Blocks:
    """Chains of products; a sign is ``·``, ``→`` or the name of a step between matrices."""

    chains: tuple[Chain, ...]
    ranks: int = 2

    def lines(self, say: Catalogue, width: int) -> list[Text]:
        from rich.text import Text

        from ..text import wrap

        lines: list[Text] = []
        for title, chain in self.chains:
            lines += [*wrap(Text(say(title), "bold"), width)]
            for row in _rows([self._letters(one) for one in chain], width):
                lines += [Text(), *row]
            lines.append(Text())
        return [*lines, *wrap(Text(self._signs(say, "plus"), "dim"), width)]

    def html(self, say: Catalogue) -> str:
        from .markup import inline

        pictures = "".join(inline(self._picture(say(title), chain, say)) for title, chain in self.chains)
        return f'<div class="chains">{pictures}</div><p class="note">{escape(self._signs(say, "sheets"))}</p>'

    def _signs(self, say: Catalogue, summands: Literal["plus", "sheets"]) -> str:
        """What the signs mean that stand in these chains. summands: how they are drawn."""
        held = {one.held for _, chain in self.chains for one in chain if isinstance(one, Matrix)}
        signs = ["number", *["all"] * ("all" in held), *[summands] * ("sum" in held)]
        return sentences(say(f"tensor.figure.{sign}") for sign in signs)

    def _letters(self, one: Matrix | str) -> list[Text]:
        """Its name, its cells, its shape: of one width."""
        from rich.cells import cell_len
        from rich.text import Text

        if isinstance(one, str):
            return [Text(), Text(one, "bold"), Text()]
        rows, columns = self.ranks * one.height, _LETTERS * one.width
        cells = ["".join(one.owner(y, x, self.ranks, rows, columns) for x in range(columns)) for y in range(rows)]
        head = "".join(label.center(columns // len(one.labels)) for label in one.labels) or one.name
        room = max(cell_len(head), cell_len(one.shape), columns)
        return [
            Text(head.center(room), "bold"),
            *(Text(cell.center(room)) for cell in cells),
            Text(one.shape.center(room), "dim"),
        ]

    def _picture(self, title: str, chain: Sequence[Matrix | str], say: Catalogue) -> Picture:
        from sim.draw.shapes import Picture, Text, text_width

        high = _UNIT * max(one.height for one in chain if isinstance(one, Matrix)) + _SHEET * (self.ranks - 1)
        middle, x = 56 + high / 2, 12.0
        shapes: list[Shape] = [Text(12, 18, title, 14, _INK, bold=True)]
        for one in chain:
            if isinstance(one, str):
                room = text_width(one, 15)
                shapes.append(Text(x + room / 2, middle, one, 15, _INK, "middle", bold=True))
            else:
                room = max(_UNIT * one.width, text_width(one.name, 13), text_width(one.shape, 11))
                room += _SHEET * (self.ranks - 1) * (one.held == "sum")
                left, top = x + (room - _UNIT * one.width) / 2, middle - _UNIT * one.height / 2
                for part, label in enumerate(one.labels or (one.name,)):
                    at = (part + 0.5) / len(one.labels) * _UNIT * one.width + left if one.labels else x + room / 2
                    shapes.append(Text(at, top - 12, label, 13, _INK, "middle", bold=True))
                shapes.append(Text(x + room / 2, top + _UNIT * one.height + 14, one.shape, 11, _MUTED, "middle"))
                shapes += self._sheets(one, left, top)
            x += room + _GAP
        width = max(x, 12 + text_width(title, 14)) + 8
        return Picture(width, 56 + high + 30, title, self._signs(say, "sheets"), shapes)

    def _sheets(self, one: Matrix, left: float, top: float) -> Iterator[Shape]:
        """A matrix as coloured rectangles with the owner's number in each; summands lie on one another."""
        from sim.draw.shapes import Rect, Text

        wide, high = _UNIT * one.width, _UNIT * one.height
        if one.held == "all":
            yield Rect(left, top, wide, high, _SAME, "", _INK)
            yield Text(left + wide / 2, top + high / 2, "•", 15, _INK, "middle", bold=True)
            return
        if one.held == "sum":
            for rank in range(self.ranks):
                off = _SHEET * (rank - (self.ranks - 1) / 2)
                last = rank == self.ranks - 1
                name = " + ".join(map(str, range(self.ranks))) if last else ""
                yield from self._block(left + off, top + off, wide, high, rank, name)
            return
        length = self.ranks * one.parts
        for rank, first, count in one.runs(self.ranks, length):
            if one.held == "rows":
                yield from self._block(left, top + high * first / length, wide, high * count / length, rank, str(rank))
            else:
                yield from self._block(left + wide * first / length, top, wide * count / length, high, rank, str(rank))

    def _block(self, x: float, y: float, wide: float, high: float, rank: int, name: str) -> Iterator[Shape]:
        from sim.draw.palette import scale, text_on
        from sim.draw.shapes import Rect, Text

        colour = scale(rank, self.ranks + 1)
        yield Rect(x, y, wide, high, colour, "", "#FFFFFF")
        if name:
            yield Text(x + wide / 2, y + high / 2, name, 13, text_on(colour), "middle", bold=True)


def _rows(pieces: Sequence[list[Text]], width: int) -> Iterator[list[Text]]:
    """Pieces beside each other, their middles on one line, in as many rows as they need; no row ends in a sign."""
    row: list[list[Text]] = []
    for number, piece in enumerate(pieces):
        pair = pieces[number : number + 2]  # a sign stays with the matrix behind it
        wanted = sum(_wide(one) + 1 for one in [*row, *(pair if len(piece[0]) == 0 else pair[:1])])
        if row and wanted > width:
            yield _joined(row)
            row = []
        row.append(piece)
    if row:
        yield _joined(row)


def _wide(piece: Sequence[Text]) -> int:
    return max(line.cell_len for line in piece)


def _joined(row: Sequence[list[Text]]) -> list[Text]:
    from rich.text import Text

    high, lines = max(map(len, row)), []
    for i in range(high):
        line = Text()
        for piece in row:
            at = i - (high - len(piece)) // 2
            part = piece[at] if 0 <= at < len(piece) else Text()
            line.append_text(part)
            line.append(" " * (_wide(piece) - part.cell_len + 1))
        line.rstrip()
        lines.append(line)
    return lines
