"""``hint``: a nudge, an idea, near-code, one after the other."""

from __future__ import annotations

import argparse

from ..lesson import Lesson
from ..reading import Reading
from ..refusal import Refusal
from ..report import print_markdown
from ..workspace import Workspace, add_lesson

HELP = "a hint; each further call says more"
GRADES = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_lesson(parser)
    parser.add_argument("--grade", type=int, choices=range(1, GRADES + 1), help="this one: nudge, idea or near-code")


def main(args: argparse.Namespace) -> int:
    workspace = Workspace.of(args)
    lesson = workspace.lesson(args.lesson)
    hints = Reading(lesson, workspace.say).hints
    if not hints:
        raise Refusal("runner.hint.none", number=lesson.number)
    most = max(map(len, hints.values()))
    seen = int(workspace.progress.lesson(lesson.name).get("hints", 0))
    grade = args.grade or seen + 1
    if grade > most:
        workspace.tell("runner.hint.no_more", all=most)
        print()
        workspace.suggest(
            ("runner.hint.again", ("hint", lesson.number, "--grade", 1)),
            ("runner.next.solution", ("solution", lesson.number)),
        )
        return 0
    workspace.tell("runner.hint.grade", grade=grade, all=most, number=lesson.number, title=workspace.title(lesson))
    for function, texts in hints.items():
        if grade <= len(texts):
            print()
            if function:
                print(f"{function}:")
            print_markdown(texts[grade - 1])
    print()
    if grade < most:
        workspace.suggest(("runner.hint.next", ("hint", lesson.number)))
    else:
        workspace.suggest(("runner.next.solution", ("solution", lesson.number)))
    if grade > seen:
        workspace.open()
        with workspace.progress.change():
            workspace.progress.lesson(lesson.name)["hints"] = grade
    return 0


def has_more(workspace: Workspace, lesson: Lesson) -> bool:
    """Whether there are hints that have not been given."""
    most = max(map(len, Reading(lesson, workspace.say).hints.values()), default=0)
    return int(workspace.progress.lesson(lesson.name).get("hints", 0)) < most
