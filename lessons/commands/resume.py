"""No command: the tour for a newcomer, and where they are for everybody else."""

from __future__ import annotations

import argparse

from ..manifest import COURSE, Lesson
from ..workspace import State, Suggestion, Workspace

HELP = "where you are, and what is next (the same as no command)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def main(args: argparse.Namespace) -> int:
    workspace = Workspace.of(args)
    if workspace.is_new:
        from ..tour import take

        return take(workspace)
    here(workspace)
    return 0


def here(workspace: Workspace) -> None:
    """Say where the learner is, how much is done, and the one command that is next."""
    lesson, state = workspace.current, workspace.state(workspace.current)
    if lesson.number:
        file = workspace.shown(workspace.file(lesson))
        title = workspace.title(lesson)
        workspace.tell(f"runner.here.{state}", number=lesson.number, title=title, file=file)
    done = sum(workspace.state(one) is State.PASSED for one in COURSE[1:])
    workspace.tell("runner.here.progress", done=done, all=len(COURSE) - 1)
    print()
    command = after(workspace, lesson, state)
    if command is None:
        workspace.tell("runner.next.all_done")
    else:
        workspace.suggest(command)


def after(workspace: Workspace, lesson: Lesson, state: State) -> Suggestion | None:
    """The one command that is next; None when all is done."""
    if lesson.number == 0 and state is not State.PASSED:
        return "runner.next.start", ("start", 0)
    if state in (State.STARTED, State.CHANGED):
        return "runner.next.check", ("check", lesson.number)
    if state is State.OPEN or (state is State.SKIPPED and lesson is workspace.current):
        return "runner.next.start", ("start", lesson.number)
    to_do = workspace.next(lesson)
    if to_do is None:
        return None
    started = workspace.state(to_do) in (State.STARTED, State.CHANGED)
    return ("runner.next.goto", ("goto", to_do.number)) if started else ("runner.next.start", ("start", to_do.number))
