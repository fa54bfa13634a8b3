"""Other lessons that a text speaks of, as links to their pages: "lesson 5", 第 5 课."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from markdown_it.token import Token

from .catalogue import Catalogue
from .lesson import Lesson
from .manifest import COURSE

_SPOKEN = re.compile(r"\b[Ll]esson[ \u00a0](\d+)\b|第 ?(\d+) ?课")


def point(tokens: Sequence[Token], own: Lesson, address: Callable[[Lesson], str], say: Catalogue) -> None:
    """In paragraphs, lists and tables; not in code, links and headings. A lesson that is not there stays text."""
    course = {lesson.number: lesson for lesson in COURSE if lesson.number != own.number}
    inside = False
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            inside = token.nesting == 1
        if token.type == "inline" and not inside:
            token.children = list(_pointed(token.children or [], course, address, say))


def _pointed(
    children: Sequence[Token], course: dict[int, Lesson], address: Callable[[Lesson], str], say: Catalogue
) -> Iterator[Token]:
    links = 0
    for token in children:
        links += {"link_open": 1, "link_close": -1}.get(token.type, 0)
        if links or token.type != "text":
            yield token
            continue
        at = 0
        for match in _SPOKEN.finditer(token.content):
            lesson = course.get(int(match[1] or match[2]))
            if lesson is None:
                continue
            title = say(f"course.{lesson.number:02}.title")
            yield _text(token.content[at : match.start()])
            yield Token("link_open", "a", 1, attrs={"href": address(lesson), "title": title})
            yield _text(match[0])
            yield Token("link_close", "a", -1)
            at = match.end()
        yield _text(token.content[at:])


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)
