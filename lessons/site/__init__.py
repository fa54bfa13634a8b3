"""The whole course as a site that works offline: every lesson's page, and what leads to them.

The pages of lessons are those of ``open``, with links in place of commands to type.
"""

from __future__ import annotations

from ..manifest import COURSE
from ..page import Page
from ..reading import Reading
from ..workspace import Workspace
from .glossary import glossary
from .index import index
from .masthead import address, shell
from .papers import papers
from .results import results
from .search import Entry, as_script, entries_of
from .which import which

__all__ = ["site"]

_LOOKS = {"index.html": "home", "results.html": "wide"}  # others are as narrow as a text


def site(workspace: Workspace) -> dict[str, str]:
    """Every file of it: name → text."""
    say, progress = workspace.say, workspace.progress.exists
    readings = [Reading(lesson, say) for lesson in COURSE]
    files: dict[str, str] = {}
    found: list[Entry] = []
    uses: dict[str, list[Reading]] = {}  # a term's id → the lessons whose texts use it
    for i, reading in enumerate(readings):
        page = Page(reading, workspace.command, shell(say, address(reading.lesson), progress))
        around = (readings[i - 1] if i else None, readings[i + 1] if i + 1 < len(readings) else None)
        files[address(reading.lesson)] = page.file(around)
        found += entries_of(reading)
        for term in page.linker.used:
            uses.setdefault(term, []).append(reading)
    others = {
        "index.html": index(workspace),
        "which.html": which(say),
        "glossary.html": glossary(say, uses),
        "papers.html": papers(say, readings),
    }
    if progress:
        others["results.html"] = results(workspace)
    for name, (sections, entries) in others.items():
        title, proves = (
            say(f"site.{name.removesuffix('.html')}.title"),
            say(f"site.{name.removesuffix('.html')}.proves"),
        )
        look = _LOOKS.get(name, "")
        files[name] = shell(say, name, progress).wrap(say, title, say("site.name"), proves, sections, look=look)
        found += entries
    return {**files, "search.js": as_script(found)}
