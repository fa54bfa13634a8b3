"""The Markdown of lessons, read once for both readers: the terminal and the page.

Plain Markdown and tables; HTML is text like any other. An image that stands alone, ``![caption](name)``, is a figure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from unicodedata import east_asian_width

from markdown_it import MarkdownIt
from markdown_it.token import Token

# Blanks at which no line ends: before a unit, in a size of an axis, around the signs of short equations and sums.
_UNIT = re.compile(r"(?<=\d) (?=(?:[kKMGT]?i?B(?:/s)?|[mun]?s|[GM]bit/s|[GTP]?FLOPs?(?:/s)?|[MST])(?![\w/]))")
_SIZE = re.compile(r"(?<=\b[DTPC]P|\b[dtpc]p) (?=\d)")
_EQUALS = re.compile(r"(?<=\b\w) = (?=\d)")
_SUM = re.compile(r"(?<!\w)(\w{1,6} −|\d{1,3} \+) (?=\w{1,4}(?!\w))")


def parse(text: str) -> list[Token]:
    tokens = MarkdownIt("commonmark", {"html": False}).enable("table").parse(text)
    for token in tokens:
        if token.children:
            _join_lines(token.children)
            for child in token.children:
                if child.type in ("text", "image"):
                    child.content = unbroken(child.content)
    return tokens


def unbroken(text: str) -> str:
    """With blanks that do not break where no line may end."""
    joined = _EQUALS.sub("\u00a0=\u00a0", _SIZE.sub("\u00a0", _UNIT.sub("\u00a0", text)))
    return _SUM.sub(lambda match: match[0].replace(" ", "\u00a0"), joined)


def figure_of(inline: Token) -> tuple[str, str] | None:
    """(name, caption) of a paragraph that is a figure."""
    children = inline.children or []
    if len(children) != 1 or children[0].type != "image":
        return None
    return str(children[0].attrs["src"]), children[0].content


def figures_of(tokens: Iterable[Token]) -> list[str]:
    found = (figure_of(token) for token in tokens if token.type == "inline")
    return [figure[0] for figure in found if figure]


def is_wide(letter: str) -> bool:
    """Like those of Chinese, between which there are no blanks."""
    return east_asian_width(letter) in ("W", "F")


def sentences(parts: Iterable[str]) -> str:
    """One after the other, with a blank between them unless the language has none."""
    text = ""
    for part in parts:
        text += " " * bool(text and not is_wide(text[-1])) + part
    return text


def _join_lines(children: Sequence[Token]) -> None:
    """A line of the source that goes on is parted by a blank, but not between wide letters."""
    for before, token, after in zip(children, children[1:], children[2:], strict=False):
        if token.type == "softbreak":
            token.type = "text"
            wide = before.content and after.content and is_wide(before.content[-1]) and is_wide(after.content[0])
            token.content = "" if wide else " "
