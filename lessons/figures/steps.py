"""Who holds what after each step."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

    from ..catalogue import Catalogue
    from .frames import Frame


@dataclass(frozen=True)
class Steps:
    """Who holds what after each step of a schedule."""

    algorithm: str
    ranks: int
    collective: str = "all_reduce"

    def lines(self, say: Catalogue, width: int) -> list[Text]:
        from rich.text import Text

        from collectives.commands.showing import draw
        from collectives.registry import find

        from ..text import beside, wrap
        from .markup import show_words

        blocks: list[list[Text]] = [[]]
        for line in draw(find(self.collective, self.algorithm), self.ranks, show_words(say)):
            if line.startswith("\n"):
                blocks.append([])
            blocks[-1].append(Text.from_markup(line.lstrip("\n")))
        title = [part for line in blocks[0] for part in wrap(line, width)]
        if max(line.cell_len for block in blocks[1:] for line in block) > width:
            blocks[1:] = [[_without_source(line) for line in block] for block in blocks[1:]]
        return [
            *title,
            Text(),
            *beside(blocks[1:], width, gap=2),
            Text(),
            *wrap(Text(say("page.steps.legend"), "dim"), width),
        ]

    def html(self, say: Catalogue) -> str:
        from collectives.registry import find

        from .frames import frames
        from .markup import frame_table, show_words

        found = list(frames(find(self.collective, self.algorithm), self.ranks, show_words(say)))
        tables = "".join(f"<li>{frame_table(frame, say)}</li>" for frame in found)
        style = f"--frame:{max(map(_width, found)):.1f}rem"
        legend = escape(say("page.steps.legend"))
        return f'<ol class="frames scroll" tabindex="0" style="{style}">{tables}</ol><p class="note">{legend}</p>'


def _without_source(line: Text) -> Text:
    """A row without where its chunk came from, which a narrow screen has no room for."""
    line.right_crop(len(line) - line.plain.find("←") if "←" in line.plain else 0)
    line.rstrip()
    return line


def _width(frame: Frame) -> float:
    """About how wide it is on a page, in rem."""
    cell = max([2.5, *(1.2 + 0.5 * len(cell.text) for row in frame.rows for cell in row if cell)])
    return 4 + cell * len(frame.heads) + max(0.45 * len(came) + 1 for came in frame.came)
