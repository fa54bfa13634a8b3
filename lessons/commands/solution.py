"""``solution``: ours, on stdout and nothing else there, so that it can go to a file; what is next, on stderr."""

from __future__ import annotations

import argparse
import sys

from ..lesson import Lesson
from ..lines import complain, unbroken
from ..refusal import Refusal
from ..source import has_source, source_of
from ..workspace import Workspace, add_lesson
from .start import need_twin

HELP = "print our solution"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_lesson(parser)
    parser.add_argument("--broken", action="store_true", help="for the broken twin: the function as it should be")


def main(args: argparse.Namespace) -> int:
    workspace = Workspace.of(args)
    lesson = workspace.lesson(args.lesson)
    need_twin(lesson, args.broken)
    if not has_source(lesson, "solution"):
        raise Refusal("runner.solution.none", number=lesson.number)
    sys.stdout.write(source_of(lesson, "solution", workspace.say))
    sys.stdout.flush()
    complain(closing(workspace, lesson, args.broken))
    if not workspace.progress.lesson(lesson.name, args.broken).get("solution_seen"):
        workspace.open()
        with workspace.progress.change():
            workspace.progress.lesson(lesson.name, args.broken)["solution_seen"] = True
    return 0


def closing(workspace: Workspace, lesson: Lesson, broken: bool) -> str:
    """What is next, for stderr; a comment, as it may be copied together with the code."""
    file = workspace.file(lesson, broken)
    verb = "check" if file.exists() else "start"
    command = unbroken(workspace.command(verb, lesson.number, *["--broken"] * broken))
    return "# " + workspace.say(f"runner.solution.{verb}", file=workspace.shown(file), command=command)
