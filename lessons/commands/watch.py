"""``watch``: check a file whenever it changes."""

from __future__ import annotations

import argparse
import time
from datetime import datetime
from pathlib import Path

from ..child import warm
from ..workspace import Workspace, add_lesson
from .check import advise, check, need_file, parse_ranks

HELP = "check your file whenever you save it; Ctrl-C ends it"
PAUSE = 0.5  # seconds between two looks; works on every file system, as no notices are needed

Stamp = tuple[int, int, int] | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_lesson(parser)
    parser.add_argument("--broken", action="store_true", help="the lesson's broken twin")
    parser.add_argument("--ranks", metavar="N|A-B|A,B", help="real processes, in place of the lesson's own choice")
    parser.add_argument("--once", action="store_true", help="check once, and end")


def main(args: argparse.Namespace) -> int:
    workspace = Workspace.of(args)
    ranks = parse_ranks(args.ranks)
    lesson = workspace.lesson(args.lesson)
    need_file(workspace, lesson, args.broken)
    file = workspace.file(lesson, args.broken)
    try:
        while True:
            seen = stamp(file)
            if not args.once:
                workspace.tell("runner.watch.check", time=f"{datetime.now():%H:%M:%S}")
                warm()
            verdict = check(workspace, lesson, args.broken, ranks)
            advise(workspace, verdict, again=args.once)
            if args.once:
                return 0 if verdict.good else 1
            print()
            workspace.tell("runner.watch.waits", file=workspace.shown(file))
            wait(file, seen)
    except KeyboardInterrupt:
        print()
        return 130 if args.once else 0


def wait(file: Path, seen: Stamp) -> None:
    """Return when the file is another than it was; while an editor has taken it away, it is none."""
    while (now := stamp(file)) is None or now == seen:
        time.sleep(PAUSE)


def stamp(file: Path) -> Stamp:
    """What changes when a file is written to or replaced; None if there is none."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
