"""``open``: a lesson as a page of its own, for a browser, offline."""

from __future__ import annotations

import argparse
import sys
import webbrowser
from pathlib import Path

from collectives.atomic import write_text

from ..browser import has_browser
from ..lesson import Lesson
from ..manifest import COURSE, place
from ..reading import Reading
from ..refusal import Refusal
from ..workspace import Workspace, add_lesson
from .resume import suggest_next

HELP = "a lesson as an HTML page that works offline: its figures move, its questions answer"
PAGES = "pages"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_lesson(parser)
    parser.add_argument("--no-browser", action="store_true", help="write the page, but start no browser")


def main(args: argparse.Namespace) -> int:
    workspace = Workspace.of(args)
    lesson = workspace.lesson(args.lesson)
    path = write_page(workspace, lesson)
    workspace.tell("page.open.wrote", file=workspace.shown(path))
    if args.no_browser or not _opened(path):
        workspace.tell("page.open.by_hand")
        print(f"  {path.as_uri()}")  # whole, however long it is
    suggest_next(workspace, lesson)
    return 0


def write_page(workspace: Workspace, lesson: Lesson) -> Path:
    """``pages/NN_name.html`` in the learner's folder, whole or not at all.

    Raises:
        Refusal: the folder cannot be written to.
    """
    from ..page import page

    near = (place(lesson) - 1, place(lesson) + 1)
    before, behind = (Reading(COURSE[i], workspace.say) if 0 <= i < len(COURSE) else None for i in near)
    text = page(Reading(lesson, workspace.say), workspace.command, (before, behind))
    workspace.open()
    path = workspace.folder / PAGES / f"{lesson.folder}.html"
    try:
        path.parent.mkdir(exist_ok=True)
        write_text(path, text)
    except OSError as error:
        reason = error.strerror or str(error)
        raise Refusal("runner.folder.unwritable", folder=str(path.parent), error=reason) from None
    return path


def _opened(path: Path) -> bool:
    """Whether a browser has been started, for somebody who sits there."""
    return has_browser() and sys.stdout.isatty() and webbrowser.open(path.as_uri())
