"""``list``: a line a lesson."""

from __future__ import annotations

import argparse

from rich.cells import cell_len

from ..lines import pad, screen, shorten
from ..manifest import COURSE
from ..workspace import State, Workspace

HELP = "the lessons, one a line: number, state, minutes, title, what it proves"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", metavar="FILE", help="write the list (- for stdout)")


def main(args: argparse.Namespace) -> int:
    workspace = Workspace.of(args)
    say, current = workspace.say, workspace.current
    states = [workspace.state(lesson) for lesson in COURSE]
    if args.json:
        from ..report import write_json

        rows = [
            {
                "lesson": lesson.number,
                "name": lesson.name,
                "state": states[lesson.number],
                "current": lesson is current,
                "minutes": lesson.minutes,
                "title": workspace.title(lesson),
                "proves": say(f"course.{lesson.number:02}.proves"),
                "file": str(workspace.file(lesson)) if workspace.file(lesson).exists() else None,
            }
            for lesson in COURSE
        ]
        write_json(args.json, {"lessons": rows})
        if args.json == "-":
            return 0
    words = {state: say(f"runner.state.{state}") for state in State}
    cells = [
        (
            f"{lesson.number:02}{'→' if lesson is current else ' '}",
            words[states[lesson.number]],
            say("runner.list.minutes", minutes=f"{lesson.minutes:>2}"),
            workspace.title(lesson),
            say(f"course.{lesson.number:02}.proves"),
        )
        for lesson in COURSE
    ]
    widths = [max(cell_len(row[column]) for row in cells) for column in range(4)]
    wide = screen()
    for row in cells:
        line = "  ".join([*(pad(cell, width) for cell, width in zip(row, widths, strict=False)), row[4]])
        print(line.rstrip() if wide is None else shorten(line.rstrip(), wide))
    return 0
