"""What figures have in common on a page: tables of who holds what, and pictures inside of it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from ..markdown import unbroken

if TYPE_CHECKING:
    from sim.draw.shapes import Circle, Picture, Rect
    from sim.words import Words

    from ..catalogue import Catalogue
    from .frames import Frame

_READABLE = 9.5  # pixels of a letter


def words_of(say: Catalogue) -> Words:
    """The words of pictures in a language."""
    from sim.words import Words

    return Words(say.table("sim"))


def show_words(say: Catalogue) -> Mapping[str, str]:
    """Those of drawings step by step."""
    from collectives.commands.showing import WORDS

    return {**WORDS, **say.table("sim")}


def inline(picture: Picture) -> str:
    """An SVG as a part of a page: its ids are its own, and its paper is the page's."""
    from sim.draw.svg import svg

    text = re.sub(r'<rect width="[\d.]+" height="[\d.]+" fill="#fff"/>', "", svg(picture), count=1)
    same = iter(_same_in_the_dark(picture))
    text = re.sub("<text ", lambda match: match[0] + 'class="same" ' * next(same), text)
    mark = "p" + hashlib.sha256(text.encode()).hexdigest()[:8]
    text = re.sub(r'(\bid="|url\(#)', rf"\1{mark}-", text)
    text = text.replace('aria-labelledby="title desc"', f'aria-labelledby="{mark}-title {mark}-desc"')
    style = f"--least:{_least_width(picture):.0f}px"
    return f'<div class="paper scroll" tabindex="0" style="{style}">{text.strip()}</div>'


def _same_in_the_dark(picture: Picture) -> Iterator[bool]:
    """Of every text, whether it stays as it is where a dark page turns the lightness of all colours round: black on
    green is easier to read than white on the green that comes of it."""
    from sim.draw.palette import text_on, turned
    from sim.draw.shapes import Circle, Rect, Text

    boxes: list[Rect | Circle] = []
    for shape in picture.shapes:
        if isinstance(shape, (Rect, Circle)):
            boxes.append(shape)
        elif isinstance(shape, Text):
            below = next((box for box in reversed(boxes) if _covers(box, shape.x, shape.y)), None)
            yield (
                below is not None and shape.fill in ("#000000", "#FFFFFF") and text_on(turned(below.fill)) == shape.fill
            )


def _covers(box: Rect | Circle, x: float, y: float) -> bool:
    from sim.draw.shapes import Circle

    if isinstance(box, Circle):
        return abs(x - box.x) <= box.radius and abs(y - box.y) <= box.radius
    return box.x <= x <= box.x + box.width and box.y <= y <= box.y + box.height


def _least_width(picture: Picture) -> float:
    """How narrow it may become: its smallest letters can still be read."""
    from sim.draw.shapes import Text

    smallest = min((shape.size for shape in picture.shapes if isinstance(shape, Text)), default=_READABLE)
    return picture.width * min(1.0, _READABLE / smallest)


def data_table(heads: Sequence[str], rows: Sequence[Sequence[str]], summary: str) -> str:
    """Numbers of a picture, folded away. No line ends behind a number, whose unit or mark follows."""
    rows = [[re.sub(r"(?<=\d) | (?=\*)", "\u00a0", text) for text in row] for row in rows]
    head = "".join(f'<th scope="col">{_named(text)}</th>' for text in heads)
    body = "".join(
        f'<tr><th scope="row">{_named(row[0])}</th>'
        + "".join(f"<td>{escape(unbroken(text))}</td>" for text in row[1:])
        + "</tr>"
        for row in rows
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<details><summary>{escape(summary)}</summary><div class="scroll" tabindex="0">{table}</div></details>'


def _named(text: str) -> str:
    """A head of a table; names like ZeRO-1 and gpt3-13b stay whole."""
    return re.sub(r"\w+-\d\w*", r"<span>\g<0></span>", escape(text))


def frame_table(frame: Frame, say: Catalogue, corner: str | None = None) -> str:
    """One step as a table. corner: what the columns are; chunks, if it is not given."""
    from sim.draw.palette import text_on

    words, arrows = show_words(say), any(frame.came)
    colours = [frame.colour(column) for column in range(len(frame.heads))]
    heads = "".join(f'<th scope="col">{escape(head)}</th>' for head in frame.heads)
    lines = []
    for rank, row in enumerate(frame.rows):
        cells = []
        for cell, colour in zip(row, colours, strict=True):
            if cell is None:
                cells.append('<td class="none">·</td>')
                continue
            kinds = " ".join(["done"] * cell.done + ["new"] * bool(cell.sign))
            style = f"--c:{colour};--on:{text_on(colour)};--share:{cell.share:.2g}"
            sign = f"<i>{cell.sign}</i>" if cell.sign else ""
            cells.append(f'<td class="{kinds}" style="{style}">{sign}{escape(cell.text)}</td>')
        came = f'<td class="came">{"← " + escape(frame.came[rank]) if frame.came[rank] else ""}</td>' * arrows
        lines.append(
            f'<tr><th scope="row">{escape(words["show.rank"].format(rank=rank))}</th>{"".join(cells)}{came}</tr>'
        )
    columns = words["show.chunk"] if corner is None else corner
    first = f'<th scope="col" class="corner">{escape(columns)}</th>' if columns else '<td class="corner"></td>'
    head = f"<thead><tr>{first}{heads}{'<td></td>' * arrows}</tr></thead>"
    return f'<table class="grid"><caption>{escape(frame.title)}</caption>{head}<tbody>{"".join(lines)}</tbody></table>'
