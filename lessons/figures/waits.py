"""Ranks that wait for each other in a circle."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from math import cos, hypot, pi, sin
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

    from collectives.sentence import Sentence

    from ..catalogue import Catalogue

_INK, _ALARM, _SIZE = "#1B2330", "#D55E00", 240.0


@dataclass(frozen=True)
class Waits:
    """Who waits for whom in a schedule that stands still, and what the prover says of it."""

    algorithm: str
    ranks: int
    collective: str = "all_reduce"

    def lines(self, say: Catalogue, width: int) -> list[Text]:
        from rich.cells import cell_len
        from rich.text import Text

        from ..text import wrap
        from .markup import words_of

        sentence, words = self._sentence(), words_of(say)
        names = [words("rank", rank=rank) for rank in sentence.fields["ranks"]]
        arrow = "─→" if cell_len("".join(names)) + 4 * len(names) + 1 <= width else "→"
        chain = f" {arrow} ".join(names) + " ─┐"
        middle = cell_len(names[0]) // 2
        across = cell_len(chain) - 2 - middle
        picture = [chain, " " * middle + "↑" + " " * across + "│", " " * middle + "└" + "─" * across + "┘"]
        said = wrap(Text(self._said(say)), width - 2)
        return [
            *(Text("  " + line) for line in picture),
            Text(f"  {arrow} " + say("page.waits.arrow"), "dim"),
            Text(),
            *said,
        ]

    def html(self, say: Catalogue) -> str:
        from sim.draw.shapes import Circle, Line, Picture, Shape
        from sim.draw.shapes import Text as Label

        from .markup import inline, words_of

        sentence, words = self._sentence(), words_of(say)
        ranks: tuple[int, ...] = sentence.fields["ranks"]
        radius, node = _SIZE / 2 - 34, 26.0
        width = _SIZE + 40

        def at(rank: int) -> tuple[float, float]:
            angle = 2 * pi * rank / self.ranks - pi / 2
            return width / 2 + radius * cos(angle), _SIZE / 2 + radius * sin(angle)

        shapes: list[Shape] = []
        for rank, peer in zip(ranks, [*ranks[1:], ranks[0]], strict=True):
            (x, y), (to_x, to_y) = at(rank), at(peer)
            length = hypot(to_x - x, to_y - y) or 1.0
            cut_x, cut_y = (to_x - x) / length * (node + 3), (to_y - y) / length * (node + 3)
            shapes.append(Line(((x + cut_x, y + cut_y), (to_x - cut_x, to_y - cut_y)), _ALARM, 2, arrow=True))
        for rank in range(self.ranks):
            shapes.append(Circle(*at(rank), node, "#FFFFFF", _INK))
            shapes.append(Label(*at(rank), words("rank", rank=rank), 12, _INK, "middle"))
        said = self._said(say)
        arrow = say("page.waits.arrow")
        shapes.append(Line(((width / 2 - 34, _SIZE / 2), (width / 2 - 12, _SIZE / 2)), _ALARM, 2, arrow=True))
        shapes.append(Label(width / 2 - 6, _SIZE / 2, arrow, 11, _INK))
        return f'{inline(Picture(width, _SIZE, arrow, said, shapes))}<p class="note">{escape(said)}</p>'

    def _said(self, say: Catalogue) -> str:
        """Who waits for whom and why; how to mend it, the lesson says."""
        fields = self._sentence().fields
        return say("page.waits.said", rank=fields["rank"], chain=fields["chain"], what=fields["what"])

    def _sentence(self) -> Sentence:
        """With the ranks of the circle among its fields.

        Raises:
            ValueError: the schedule does not stand still.
        """
        from collectives.errors import ScheduleError
        from collectives.proof import prove
        from collectives.registry import find

        try:
            prove(find(self.collective, self.algorithm), self.ranks)
        except ScheduleError as error:
            if error.kind == "deadlock":
                return error.sentence
            raise
        raise ValueError(f"{self.algorithm} does not stand still")
