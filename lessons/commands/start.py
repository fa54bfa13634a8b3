"""``start``: the learner's own copy of a stub, or of the broken twin."""

from __future__ import annotations

import argparse

from ..answer import unwritten
from ..lesson import Lesson
from ..reading import Reading
from ..refusal import Refusal
from ..report import print_markdown
from ..source import source_of
from ..workspace import State, Workspace, add_lesson

HELP = "begin a lesson: copy its stub into your folder"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_lesson(parser)
    parser.add_argument("--broken", action="store_true", help="the lesson's broken twin: find the planted fault")
    parser.add_argument("--open", action="store_true", help="with lesson 0: show its animation in a browser")


def main(args: argparse.Namespace) -> int:
    workspace = Workspace.of(args)
    lesson = workspace.lesson(args.lesson)
    if args.lesson is None and workspace.state(lesson) in (State.PASSED, State.SKIPPED) and not args.broken:
        lesson = workspace.next(lesson) or lesson
    if lesson.number == 0:
        from ..tour import take

        need_twin(lesson, args.broken)
        return take(workspace, show=args.open)
    if args.open:
        raise Refusal("runner.start.open", command=workspace.command("open", lesson.number))
    need_twin(lesson, args.broken)
    fresh = copy(workspace, lesson, args.broken)
    with workspace.progress.change():
        workspace.progress.current = lesson.name
        record = workspace.progress.lesson(lesson.name, args.broken)
        if record.get("state") != State.PASSED:
            record["state"] = State.STARTED
    greet(workspace, lesson, args.broken, fresh)
    return 0


def copy(workspace: Workspace, lesson: Lesson, broken: bool) -> bool:
    """Make the learner's file, unless it is there; whether it was made."""
    file = workspace.file(lesson, broken)
    workspace.open()
    text = source_of(lesson, "broken" if broken else "stub", workspace.say)
    try:
        with open(file, "x", encoding="utf-8", newline="\n") as out:
            out.write(text)
    except FileExistsError:
        return False
    except OSError as error:
        raise Refusal("runner.folder.unwritable", folder=str(workspace.folder), error=error.strerror or "") from None
    return True


def need_twin(lesson: Lesson, broken: bool) -> None:
    """Refuse the twin of a lesson that has none.

    Raises:
        Refusal: it has none.
    """
    if broken and lesson.twin is None:
        raise Refusal("runner.no_twin", number=lesson.number)


def tell_needs(workspace: Workspace, lesson: Lesson) -> None:
    """Say so if it builds upon lessons that have not passed."""
    if missing := [n for n in lesson.needs if n and not workspace.has_passed(n)]:
        workspace.tell("runner.start.needs", number=lesson.number, lessons=[str(one) for one in missing])


def greet(workspace: Workspace, lesson: Lesson, broken: bool, fresh: bool) -> None:
    """Say what is there now, and what to do with it."""
    option = ["--broken"] * broken
    file = workspace.shown(workspace.file(lesson, broken))
    workspace.tell("runner.start.file" if fresh else "runner.start.there", file=file, number=lesson.number)
    tell_needs(workspace, lesson)
    if broken:
        print_markdown(Reading(lesson, workspace.say).text("twin.task"))
    else:
        todo = unwritten(source_of(lesson, "stub", workspace.say), lesson.functions)
        workspace.tell("runner.start.functions", functions=[name for name in todo if name not in lesson.extra])
        if lesson.extra:
            workspace.tell("runner.start.extra", functions=list(lesson.extra))
    print()
    again = [] if fresh else [("runner.start.reset", ("reset", lesson.number, *option))]
    text = [] if broken else [("runner.start.show", ("show", lesson.number))]
    check = ("runner.start.check", ("check", lesson.number, *option))
    watch = ("runner.start.watch", ("watch", lesson.number, *option))
    workspace.suggest(*text, check, watch, *again)
