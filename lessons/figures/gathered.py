"""Which parameters every rank has while ZeRO-3 goes through the layers, forward and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

    from ..catalogue import Catalogue
    from .frames import Frame

_LETTERS = "abcdefgh"


@dataclass(frozen=True)
class Gathered:
    """A table for each layer that runs, in the order of the library's plan: three layers of three parts on three ranks.

    Left the parameters, right the gradients. prefetch: layers that are fetched ahead.
    """

    layers: int = 3
    ranks: int = 3
    prefetch: int = 0

    def lines(self, say: Catalogue, width: int) -> list[Text]:
        from .grids import grid_lines

        return grid_lines(self._frames(say), say("page.gathered.legend"), say, width)

    def html(self, say: Catalogue) -> str:
        from .grids import grid_html

        return grid_html(self._frames(say), say("page.gathered.legend"), say, rem=22.0)

    def _frames(self, say: Catalogue) -> list[Frame]:
        from parallel.zero.plan import backward, forward

        here: set[int] = set()  # layers whose parameters are whole now
        done: set[int] = set()  # layers whose gradients are reduced
        found = [self._frame(say("page.gathered.rest"), here, None, done)]
        for name, tasks in (
            ("forward", forward(self.layers, self.prefetch, gathers=True)),
            ("backward", backward(self.layers, self.prefetch, gathers=True, reduces=True)),
        ):
            for task in tasks:  # layer 0, what belongs to none, is empty here
                if not task.layer:
                    continue
                if task.kind == "gather":
                    here.add(task.layer)
                elif task.kind == "run":
                    title = say(f"page.gathered.{name}", layer=f"L{_LETTERS[task.layer - 1]}")
                    found.append(self._frame(title, here, task.layer if name == "backward" else None, done))
                    here.discard(task.layer)
                    if name == "backward":
                        done.add(task.layer)
        found.append(self._frame(say("page.gathered.step"), here, None, done))
        return found

    def _frame(self, title: str, here: set[int], computed: int | None, done: set[int]) -> Frame:
        """computed: the layer whose gradient is whole, of this rank's rows alone, and about to be reduced."""
        from .frames import Cell, Frame

        numbers = range(1, self.layers + 1)
        every = "".join(map(str, range(self.ranks)))
        share = 1 / self.ranks
        rows = []
        for rank in range(self.ranks):
            row: list[Cell | None] = []
            for layer in numbers:
                letter = _LETTERS[layer - 1]
                whole = layer in here
                text = letter + (every if whole else str(rank))
                row.append(Cell(text, 1.0 if whole else share, done=whole, sign="=" if whole else ""))
            for layer in numbers:
                letter = "∂" + _LETTERS[layer - 1]
                if layer == computed:
                    row.append(Cell(letter + every, 1.0))
                else:
                    row.append(Cell(letter + str(rank), share, done=True) if layer in done else None)
            rows.append(row)
        heads = [*(f"L{_LETTERS[layer - 1]}" for layer in numbers), *(f"∂L{_LETTERS[layer - 1]}" for layer in numbers)]
        return Frame(title, heads, rows, [""] * self.ranks)
