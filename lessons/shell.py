"""What is around the text of a page: markup, style, script and words, in one file that fetches nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from .catalogue import Catalogue
from .lesson import Lesson

_LANGUAGES = {"zh": "zh-Hans"}  # others are what they are called


@dataclass(frozen=True)
class Shell:
    """A page alone in its file, or one of a site: they differ in where their links lead.

    masthead: markup above the heading. style, script: beside those of every page. scripts: of the site, which a page
    may load. glossary: the file with all terms; empty for those at the page's end. address: of a lesson's page; None
    for a page whose reader types commands instead.
    """

    masthead: str = ""
    style: str = ""
    script: str = ""
    scripts: str = ""
    glossary: str = ""
    address: Callable[[Lesson], str] | None = None

    def wrap(
        self, say: Catalogue, title: str, where: str, proves: str, sections: str, neighbours: str = "", look: str = ""
    ) -> str:
        """The file. sections, neighbours: markup; the rest: text. look: a class of the page."""
        folder = files(__package__)
        parts = {
            "language": _LANGUAGES.get(say.language, say.language),
            "title": escape(title),
            "where": escape(where),
            "proves": escape(proves),
            "look": look,
            "masthead": self.masthead,
            "scripts": self.scripts,
            "style": (folder / "page.css").read_text("utf-8") + self.style,
            "script": (folder / "page.js").read_text("utf-8") + self.script,
            "sections": sections,
            "neighbours": neighbours,
        }

        def part(match: re.Match[str]) -> str:
            return parts[match[1]] if match[1] in parts else escape(say(match[1]))

        return re.sub(r"\{\{([\w.]+)\}\}", part, (folder / "page.html").read_text("utf-8"))


ALONE = Shell()
