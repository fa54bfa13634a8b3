"""``list``: a line a lesson."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from rich.cells import cell_len

from ..lines import pad, screen, wrap
from ..manifest import COURSE, core_further, core_minutes
from ..reading import duration
from ..workspace import State, Workspace

HELP = "the lessons, one a line: number, state, minutes, title, what it proves"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", metavar="FILE", help="write the list (- for stdout)")


def main(args: argparse.Namespace) -> int:
    workspace = Workspace.of(args)
    say, current = workspace.say, workspace.current
    states = {lesson.number: workspace.state(lesson) for lesson in COURSE}
    if args.json:
        from ..report import write_json

        rows = [
            {
                "lesson": lesson.number,
                "name": lesson.name,
                "state": states[lesson.number],
                "current": lesson is current,
                "minutes": lesson.minutes,
                "further": lesson.further,
                "core": lesson.core,
                "title": workspace.title(lesson),
                "proves": say(f"course.{lesson.number:02}.proves"),
                "file": str(workspace.file(lesson)) if workspace.file(lesson).exists() else None,
            }
            for lesson in COURSE
        ]
        write_json(args.json, {"lessons": rows, "core_minutes": core_minutes(), "core_further": core_further()})
        if args.json == "-":
            return 0
    words = {state: say(f"runner.state.{state}") for state in State}
    cells = [
        (
            f"{lesson.number:02}{'★' if lesson.core else ' '}{'→' if lesson is current else ' '}",
            words[states[lesson.number]],
            say("runner.list.minutes", minutes=f"{lesson.minutes:>2}"),
            workspace.title(lesson),
            say(f"course.{lesson.number:02}.proves"),
        )
        for lesson in COURSE
    ]
    print("\n".join(_fitting(cells, screen())))
    core = [lesson for lesson in COURSE if lesson.core]
    done = sum(states[lesson.number] is State.PASSED for lesson in core)
    print()
    times = {"time": duration(say, core_minutes()), "further": duration(say, core_further())}
    workspace.tell("runner.list.core", lessons=len(core), done=done, **times)
    return 0


def _fitting(rows: Sequence[Sequence[str]], wide: int | None) -> Iterator[str]:
    """A line a row. Where that is too wide, without what lessons show, then without their minutes; then titles go on
    in the next line. Nothing is cut."""
    for columns in ((0, 1, 2, 3, 4), (0, 1, 2, 3), (0, 1, 3)):
        widths = [max(cell_len(row[column]) for row in rows) for column in columns]
        if wide is None or sum(widths) + 2 * (len(widths) - 1) <= wide:
            break
    left = sum(widths[:-1]) + 2 * (len(widths) - 1)
    for row in rows:
        *before, last = (row[column] for column in columns)
        head = "".join(pad(cell, width + 2) for cell, width in zip(before, widths, strict=False))
        yield from wrap(last, left + widths[-1] if wide is None else wide, head, " " * left)
