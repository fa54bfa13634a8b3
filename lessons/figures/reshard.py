"""Elements that some ranks have saved, and others read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

    from ..catalogue import Catalogue

_INK = "#1B2330"
_CELL, _ROW, _LEFT = 34.0, 30.0, 78.0


@dataclass(frozen=True)
class Reshard:
    """Above the files, a row each; below the ranks that read them. Both are cut as ZeRO cuts."""

    elements: int
    saved: int
    loaded: int

    def lines(self, say: Catalogue, width: int) -> list[Text]:
        from rich.cells import cell_len
        from rich.text import Text

        from ..text import wrap

        names = [name for name, _ in self._rows(say)]
        left = max(map(cell_len, names)) + 2
        wide = len(str(self.elements - 1)) + 1
        lines = []
        for number, (name, span) in enumerate(self._rows(say)):
            if number == self.saved:
                lines.append(Text())
            cells = "".join(str(one).rjust(wide) for one in span)
            lines.append(Text(name + " " * (left - cell_len(name) + wide * span.start) + cells))
        return [*lines, Text(), *wrap(Text(say("page.reshard.legend"), "dim"), width)]

    def html(self, say: Catalogue) -> str:
        from html import escape

        from sim.draw.palette import scale, text_on
        from sim.draw.shapes import Picture, Rect, Shape
        from sim.draw.shapes import Text as Label

        from .markup import inline

        length = -(-self.elements // self.saved)
        shapes: list[Shape] = []
        for number, (name, span) in enumerate(self._rows(say)):
            y = 8 + _ROW * number + 14 * (number >= self.saved)
            shapes.append(Label(_LEFT - 10, y + _ROW / 2 - 2, name, 13, _INK, "end"))
            for one in span:
                colour = scale(one // length, self.saved)
                shapes.append(Rect(_LEFT + _CELL * one, y, _CELL - 2, _ROW - 4, colour))
                shapes.append(
                    Label(
                        _LEFT + _CELL * one + _CELL / 2 - 1, y + _ROW / 2 - 2, str(one), 12, text_on(colour), "middle"
                    )
                )
        legend = say("page.reshard.legend")
        said = "; ".join(f"{name}: {', '.join(map(str, span))}" for name, span in self._rows(say))
        height = 8 + _ROW * (self.saved + self.loaded) + 20
        picture = Picture(_LEFT + _CELL * self.elements + 12, height, legend, said, shapes)
        return f'{inline(picture)}<p class="note">{escape(legend)}</p>'

    def _rows(self, say: Catalogue) -> list[tuple[str, range]]:
        """Names of files, then of ranks, and the elements that each has."""
        return [
            (say(f"page.reshard.{kind}", number=number), span)
            for kind, ranks in (("file", self.saved), ("rank", self.loaded))
            for number, span in enumerate(self._spans(ranks))
        ]

    def _spans(self, ranks: int) -> list[range]:
        from parallel.zero.partition import Partition

        found = [Partition((self.elements,), ranks).within(rank)[0] for rank in range(ranks)]
        return [range(*span) for span in found]
