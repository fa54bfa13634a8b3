"""``goto``: make another lesson the current one."""

from __future__ import annotations

import argparse

from ..workspace import Workspace
from .resume import here

HELP = "make a lesson the current one"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("lesson", metavar="n", help="number or name")


def main(args: argparse.Namespace) -> int:
    workspace = Workspace.of(args)
    lesson = workspace.lesson(args.lesson)
    workspace.open()
    with workspace.progress.change():
        workspace.progress.current = lesson.name
    here(workspace)
    return 0
