"""The page with all words of the field, and the lessons that use them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from markdown_it import MarkdownIt

from ..catalogue import Catalogue
from ..glossary import terms
from ..reading import Reading
from .masthead import named
from .search import Entry, plain

_FILE = "glossary.html"


def glossary(say: Catalogue, uses: Mapping[str, Sequence[Reading]]) -> tuple[str, list[Entry]]:
    """Its sections, and what the search finds there; uses: a term's id → lessons."""
    found = sorted(terms(say), key=lambda term: term.name.lower())
    markdown = MarkdownIt("commonmark", {"html": False})
    items = []
    for term in found:
        where = f'<dd class="uses">{named(say, uses[term.id])}</dd>' if term.id in uses else ""
        items.append(
            f'<div><dt id="term-{term.id}">{escape(term.name)}</dt><dd>{markdown.render(term.text).strip()}</dd>'
            f"{where}</div>"
        )
    entries = [
        Entry(f"{_FILE}#term-{term.id}", term.name, say("site.glossary.title"), plain(term.text)) for term in found
    ]
    return f'<dl class="terms">{"".join(items)}</dl>', entries
