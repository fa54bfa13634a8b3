"""The page with the papers of all lessons, each once, with the lessons that rest on it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

from ..catalogue import Catalogue
from ..markdown import parse
from ..reading import Reading
from .masthead import named
from .search import Entry, plain


@dataclass
class Paper:
    """text: Markdown, as the first lesson has it, without what it says of it. readings: those that name it."""

    text: str
    readings: list[Reading] = field(default_factory=list)


def papers(say: Catalogue, readings: Sequence[Reading]) -> tuple[str, list[Entry]]:
    """Its sections, and what the search finds there."""
    markdown = MarkdownIt("commonmark", {"html": False})
    items, entries = [], []
    for number, paper in enumerate(collected(readings), 1):
        text = markdown.renderer.render(parse(paper.text), markdown.options, {})
        items.append(f'<li id="paper-{number}">{text}<p class="uses">{named(say, paper.readings)}</p></li>')
        entries.append(
            Entry(f"papers.html#paper-{number}", _title(paper.text), say("site.papers.title"), plain(paper.text))
        )
    return f'<ul class="papers">{"".join(items)}</ul>', entries


def collected(readings: Sequence[Reading]) -> list[Paper]:
    """The oldest first, those without a year last. A paper is known by its title, which is emphasised."""
    found: dict[str, Paper] = {}
    for reading in readings:
        for text in _items(reading.text("papers")) if reading.has("papers") else ():
            paper = found.setdefault(_title(text).casefold(), Paper(_reference(text)))
            if reading not in paper.readings:
                paper.readings.append(reading)
    return sorted(found.values(), key=lambda paper: (_year(paper.text), _title(paper.text).casefold()))


def _items(markdown: str) -> Iterator[str]:
    """The items of the list, as they were written."""
    lines = markdown.split("\n")
    for token in parse(markdown):
        if token.type == "list_item_open" and token.level == 1 and token.map:
            yield re.sub(r"^[-*]\s+", "", " ".join(line.strip() for line in lines[slice(*token.map)]).strip())


def _reference(text: str) -> str:
    """Without what a lesson says of it, behind the colon after its year or number."""
    found = re.match(r"(.*?\*[^*]+\*)(.*)", text)
    return (found[1] + re.split(r"(?<=\d): |(?<=\d)：", found[2])[0] if found else text).rstrip(" .。")


def _year(text: str) -> str:
    """The last one that is named; an arXiv number is none."""
    return next(reversed(re.findall(r"(?<![\d:.])(?:19|20)\d\d(?![\d.]\d)", text)), "later")


def _title(text: str) -> str:
    children: list[Token] = next((one.children or [] for one in parse(text) if one.type == "inline"), [])
    for before, token in pairwise(children):
        if before.type in ("em_open", "strong_open"):
            return token.content
    return plain(text)
