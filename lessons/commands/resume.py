"""No command: the tour for a newcomer, and where they are for everybody else."""

from __future__ import annotations

import argparse

from ..lesson import Lesson
from ..manifest import COURSE, place
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
    file = workspace.shown(workspace.file(lesson))
    workspace.tell(f"runner.here.{state}", number=lesson.number, title=workspace.title(lesson), file=file)
    done = sum(workspace.state(one) is State.PASSED for one in COURSE[1:])
    workspace.tell("runner.here.progress", done=done, all=len(COURSE) - 1)
    suggest_next(workspace, lesson)


def suggest_next(workspace: Workspace, lesson: Lesson) -> None:
    """The one command that is next, for who has just had to do with ``lesson``."""
    command = after(workspace, lesson)
    print()
    if command:
        workspace.suggest(command)
    else:
        tell_all_done(workspace)


def tell_all_done(workspace: Workspace) -> None:
    workspace.tell("runner.next.all_done", command="python -m collectives --help")


def after(workspace: Workspace, lesson: Lesson) -> Suggestion | None:
    """The one command that is next: of ``lesson`` itself, else of the current one, else of one to do, else of extras.

    None when all is done, the twins and the questions included.
    """
    own = _to_do(workspace, lesson)
    if own is not None:
        return own
    current = workspace.current
    if lesson is not current and workspace.state(current) is not State.SKIPPED:
        command = _to_do(workspace, current)
        if command is not None and current.number:
            return "runner.next.current", command[1]
    following = workspace.next(lesson)
    if following is None:
        return _left_over(workspace, lesson)
    if workspace.state(following) is State.STARTED:
        return "runner.next.goto", ("goto", following.number)
    return _to_do(workspace, following)


def _to_do(workspace: Workspace, lesson: Lesson) -> Suggestion | None:
    """What a lesson itself asks for; None if it is done, or left out and not the current one."""
    state = workspace.state(lesson)
    if lesson.number == 0:
        return None if state is State.PASSED else ("runner.next.tour", ("start", 0))
    if state is State.CHANGED and sum(workspace.state(one) is State.CHANGED for one in COURSE) > 1:
        return "runner.next.check_all", ("check", "all")
    if state in (State.STARTED, State.CHANGED):
        return "runner.next.check", ("check", lesson.number)
    if state is State.OPEN:
        return "runner.next.start", ("start", lesson.number)
    if state is State.SKIPPED and lesson is workspace.current:
        return "runner.next.take_up", ("start", lesson.number)
    return None


def _left_over(workspace: Workspace, lesson: Lesson) -> Suggestion | None:
    """Of a course of which nothing is to do: what was left out, then the twins, then the questions; own ones first."""
    for one in COURSE[1:]:
        if workspace.state(one) is State.SKIPPED:
            return "runner.next.take_up", ("start", one.number)
    course = [*COURSE[max(place(lesson), 1) :], *COURSE[1 : place(lesson)]]
    for one in course:
        if one.twin and workspace.state(one, broken=True) is not State.PASSED:
            return twin(workspace, one)
    for one in course:
        if "quiz" not in workspace.progress.lesson(one.name):
            return "runner.next.quiz", ("quiz", one.number)
    return None


def twin(workspace: Workspace, lesson: Lesson) -> Suggestion:
    """What is next with a broken twin that has not passed."""
    begun = workspace.file(lesson, broken=True).exists()
    if begun:
        return "runner.next.check_twin", ("check", lesson.number, "--broken")
    return "runner.next.twin", ("start", lesson.number, "--broken")
