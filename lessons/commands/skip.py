"""``skip``: leave a lesson out, and go to the next."""

from __future__ import annotations

import argparse

from ..lesson import Lesson
from ..manifest import COURSE
from ..workspace import State, Workspace, add_lesson
from .resume import here

HELP = "leave a lesson out and go on to the next; start takes it up again"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_lesson(parser)


def main(args: argparse.Namespace) -> int:
    workspace = Workspace.of(args)
    lesson = workspace.lesson(args.lesson)
    passed = workspace.state(lesson) is State.PASSED
    workspace.open()
    with workspace.progress.change():
        if not passed:
            workspace.progress.lesson(lesson.name)["state"] = State.SKIPPED
        if lesson is workspace.current:
            workspace.progress.current = (workspace.next(lesson) or _first_skipped(workspace) or lesson).name
    workspace.tell("runner.skip.passed" if passed else "runner.skip.done", number=lesson.number)
    here(workspace)
    return 0


def _first_skipped(workspace: Workspace) -> Lesson | None:
    """Where one goes on when nothing else is left."""
    return next((lesson for lesson in COURSE[1:] if workspace.state(lesson) is State.SKIPPED), None)
