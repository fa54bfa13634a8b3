"""What collectives promise: who starts with what, and who ends with what."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

    from ..catalogue import Catalogue
    from .frames import Frame

EIGHT = ("broadcast", "scatter", "gather", "reduce", "all_gather", "reduce_scatter", "all_reduce", "all_to_all")


@dataclass(frozen=True)
class Operators:
    """Each collective before and after, with as many chunks as ranks."""

    collectives: tuple[str, ...] = EIGHT
    ranks: int = 3

    def lines(self, say: Catalogue, width: int) -> list[Text]:
        from rich.cells import cell_len
        from rich.text import Text

        from ..text import beside, wrap
        from .markup import show_words

        names = [show_words(say)["show.rank"].format(rank=rank) for rank in range(self.ranks)]
        left = max(map(cell_len, names))
        blocks = []
        for name in self.collectives:
            before, after = self._frames(name, say)
            cell = max(len(one.text) for frame in (before, after) for row in frame.rows for one in row if one) + 1
            wide = max(cell * self.ranks, *(cell_len(frame.title) + 1 for frame in (before, after)))
            lines = [Text(name, "bold")]
            lines.append(
                Text(" " * (left + 2) + before.title, "dim")
                + Text(" " * (wide - cell_len(before.title) + 3) + after.title, "dim")
            )
            for rank, row_name in enumerate(names):
                line = Text(row_name + " " * (left + 2 - cell_len(row_name)))
                for frame in (before, after):
                    row = [(one.text if one else "·").ljust(cell) for one in frame.rows[rank]]
                    line.append("".join(row).ljust(wide), "green" if frame is after else "")
                    line.append(" → " * (frame is before), "dim")
                lines.append(line)
            blocks.append(lines)
        return [*beside(blocks, width), Text(), *wrap(Text(say("page.operators.legend"), "dim"), width)]

    def html(self, say: Catalogue) -> str:
        from .markup import frame_table

        items = []
        for name in self.collectives:
            before, after = (frame_table(frame, say) for frame in self._frames(name, say))
            arrow = '<span class="arrow" aria-hidden="true">→</span>'
            items.append(
                f'<li><p class="name"><code>{name}</code></p><div class="pair">{before}{arrow}{after}</div></li>'
            )
        legend = escape(say("page.operators.legend"))
        return f'<ul class="operators">{"".join(items)}</ul><p class="note">{legend}</p>'

    def _frames(self, name: str, say: Catalogue) -> tuple[Frame, Frame]:
        from collectives.contract import Place, contract_of

        from .frames import Held, frame
        from .markup import show_words

        contract, words = contract_of(name), show_words(say)
        starts: Held = [dict(contract.starts(rank, self.ranks, self.ranks)) for rank in range(self.ranks)]
        ends: Held = [dict(contract.ends(rank, self.ranks, self.ranks)) for rank in range(self.ranks)]

        def places(held: Held) -> list[Place]:
            space = next(place[0] for row in held for place in row)
            return [(space, index) for index in range(self.ranks)]

        before = frame(say("page.operators.before"), starts, ends, places(starts), words)
        after = frame(say("page.operators.after"), ends, ends, places(ends), words)
        return before, after
