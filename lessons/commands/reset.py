"""``reset``: a fresh stub; the learner's file is kept under another name."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..refusal import Refusal
from ..workspace import State, Workspace, add_lesson
from .start import copy, need_twin

HELP = "begin a lesson again; your file is kept as a backup"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_lesson(parser)
    parser.add_argument("--broken", action="store_true", help="the broken twin")


def main(args: argparse.Namespace) -> int:
    workspace = Workspace.of(args)
    lesson = workspace.lesson(args.lesson)
    if lesson.number == 0:
        raise Refusal("runner.tour_only", command=workspace.command("start 0"))
    need_twin(lesson, args.broken)
    option = ["--broken"] * args.broken
    file = workspace.file(lesson, args.broken)
    if not file.exists():
        command = workspace.command("start", lesson.number, *option)
        raise Refusal("runner.reset.no_file", file=workspace.shown(file), command=command)
    backup = free(file)
    try:
        file.rename(backup)
    except OSError as error:
        raise Refusal("runner.folder.unwritable", folder=str(workspace.folder), error=error.strerror or "") from None
    copy(workspace, lesson, args.broken)
    with workspace.progress.change():
        record = workspace.progress.lesson(lesson.name, args.broken)
        record["state"] = State.STARTED
        record.pop("hints", None)
    workspace.tell("runner.reset.done", file=workspace.shown(file), backup=backup.name)
    print()
    workspace.suggest(("runner.start.check", ("check", lesson.number, *option)))
    return 0


def free(file: Path) -> Path:
    """The first name of a backup that is not taken."""
    number = 1
    while (backup := file.with_name(f"{file.stem}.backup-{number}.py")).exists():
        number += 1
    return backup
