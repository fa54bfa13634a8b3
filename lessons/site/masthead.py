"""What every page of the site has above its text: the way to the other pages, and the search."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files

from ..catalogue import Catalogue
from ..lesson import Lesson
from ..reading import Reading
from ..shell import Shell

_PLACES = ("index", "which", "glossary", "papers", "results")


def address(lesson: Lesson) -> str:
    """The file of a lesson's page."""
    return f"{lesson.folder}.html"


def shell(say: Catalogue, here: str, results: bool) -> Shell:
    """Of one page, in file ``here``; ``results``: whether there is a page with the learner's own."""
    folder = files(__package__)
    return Shell(
        masthead=_masthead(say, here, results),
        style=(folder / "site.css").read_text("utf-8"),
        script=(folder / "site.js").read_text("utf-8"),
        scripts=" 'self' file:",  # the search is a file of its own
        glossary="glossary.html",
        address=address,
    )


def link(lesson: Lesson, title: str) -> str:
    """To a lesson, by its number and title."""
    return f'<a href="{address(lesson)}">{lesson.number} · {escape(title)}</a>'


def named(say: Catalogue, readings: Sequence[Reading]) -> str:
    """Lessons by their numbers, where titles would take too much room."""
    links = ", ".join(
        f'<a href="{address(one.lesson)}" title="{escape(one.title)}">{one.lesson.number}</a>' for one in readings
    )
    return f"{escape(say('site.uses' if len(readings) > 1 else 'site.use'))} {links}"


def _masthead(say: Catalogue, here: str, results: bool) -> str:
    links = "".join(
        f'<a href="{name}.html"{_current(name, here)}>{escape(say(f"site.{name}.link"))}</a>'
        for name in _PLACES
        if results or name != "results"
    )
    words = " ".join(f'data-{word}="{escape(say(f"site.search.{word}"))}"' for word in ("none", "some", "failed"))
    label, hint = escape(say("site.search.label")), escape(say("site.search.hint"))
    return (
        f'<div class="masthead"><a class="brand" href="index.html">{escape(say("site.name"))}</a>'
        f'<nav class="places" aria-label="{escape(say("site.places"))}">{links}</nav>'
        f'<div class="search" role="search" data-script hidden {words}>'
        f'<input type="search" id="search" autocomplete="off" spellcheck="false" aria-label="{label}" '
        f'aria-controls="found" placeholder="{hint}">'
        '<div id="found" hidden><p role="status"></p><ol></ol></div></div></div>\n'
    )


def _current(name: str, here: str) -> str:
    return ' aria-current="page"' if here == f"{name}.html" else ""
