"""Frames that follow each other, for figures that show who holds what: lines of a terminal, and a list on a page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

    from ..catalogue import Catalogue
    from .frames import Frame


def grid_lines(frames: Sequence[Frame], legend: str, say: Catalogue, width: int) -> list[Text]:
    """As many beside each other as fit, and the legend below."""
    from rich.text import Text

    from ..text import beside, wrap

    return [*beside([_block(frame, say) for frame in frames], width), Text(), *wrap(Text(legend, "dim"), width)]


def _block(frame: Frame, say: Catalogue) -> list[Text]:
    """A table whose columns are as wide as what is in them; what is complete is green."""
    from rich.cells import cell_len
    from rich.text import Text

    from .markup import show_words

    names = [show_words(say)["show.rank"].format(rank=rank) for rank in range(len(frame.rows))]
    texts = [[cell.sign + cell.text if cell else "·" for cell in row] for row in frame.rows]
    widths = [
        max(map(cell_len, (head, *(row[column] for row in texts)))) + 2 for column, head in enumerate(frame.heads)
    ]
    left = max(map(cell_len, names)) + 2

    def padded(text: str, width: int) -> str:
        return text + " " * (width - cell_len(text))

    lines = [Text(frame.title, "bold")]
    lines.append(Text(" " * left + "".join(map(padded, frame.heads, widths)), "dim"))
    for name, row, cells in zip(names, texts, frame.rows, strict=True):
        line = Text(padded(name, left))
        for text, cell, wide in zip(row, cells, widths, strict=True):
            line.append(padded(text, wide), "green" if cell and cell.done else "bold" if cell and cell.sign else "")
        lines.append(line)
    for line in lines:
        line.rstrip()
    return lines


def grid_html(frames: Sequence[Frame], legend: str, say: Catalogue, corner: str = "", rem: float = 20.0) -> str:
    """rem: about how wide one is."""
    from .markup import frame_table

    tables = "".join(f"<li>{frame_table(frame, say, corner)}</li>" for frame in frames)
    style = f"--frame:{rem:.1f}rem"
    return f'<ol class="frames scroll" tabindex="0" style="{style}">{tables}</ol><p class="note">{escape(legend)}</p>'
