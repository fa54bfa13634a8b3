"""What every rank holds between training steps, in each stage of ZeRO."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

    from ..catalogue import Catalogue
    from .frames import Frame


@dataclass(frozen=True)
class Shards:
    """A table a stage: a digit is a part of all parameters, gradients or optimizer states."""

    ranks: int = 4

    def lines(self, say: Catalogue, width: int) -> list[Text]:
        from .grids import grid_lines

        return grid_lines(self._frames(say), say("page.shards.legend"), say, width)

    def html(self, say: Catalogue) -> str:
        from .grids import grid_html

        return grid_html(self._frames(say), say("page.shards.legend"), say)

    def _frames(self, say: Catalogue) -> list[Frame]:
        from parallel.formulas import MIXED, STAGES, state_bytes

        from .frames import Cell, Frame

        whole = "".join(map(str, range(self.ranks)))
        heads = [say(f"page.shards.{kind}") for kind in ("parameters", "gradients", "optimizer")]
        found = []
        for stage in STAGES:
            held = state_bytes(self.ranks, self.ranks, stage)
            kinds = (held.parameters, held.gradients, held.optimizer)
            shares = [
                one / (self.ranks * each)
                for one, each in zip(kinds, (MIXED.parameters, MIXED.gradients, MIXED.optimizer), strict=True)
            ]
            rows = [
                [Cell(whole if share == 1 else str(rank), share, done=share < 1) for share in shares]
                for rank in range(self.ranks)
            ]
            title = say("page.shards.stage", stage=stage, bytes=f"{held.total / self.ranks:g}")
            found.append(Frame(title, heads, rows, [""] * self.ranks))
        return found
