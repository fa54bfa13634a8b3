"""``selftest``: does the course keep what it promises?"""

from __future__ import annotations

import argparse
import sys
import time

from ..lesson import Lesson
from ..lines import columns, shorten, wrap
from ..manifest import COURSE
from ..refusal import Refusal
from ..report import check_target, write_json
from ..selftest import Proof, prove_all
from ..workspace import Workspace

HELP = "check the course itself: stubs, solutions, planted faults, numbers, pictures, languages"
MOST_JOBS = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("lesson", nargs="?", default="all", metavar="n|all", help="number or name (default: all)")
    parser.add_argument("--jobs", metavar="N", help="lessons at the same time (default: as many as there are cores)")
    parser.add_argument("--json", metavar="FILE", help="write what was found (- for stdout)")
    parser.epilog = "exit status: 0 if all holds, 1 if something does not, 2 for a wrong argument"


def main(args: argparse.Namespace) -> int:
    workspace = Workspace.of(args)
    check_target(args.json)
    whole, jobs = args.lesson == "all", parse_jobs(args.jobs)
    lessons = COURSE if whole else (workspace.lesson(args.lesson),)
    status, rows, began = Status(workspace), [], time.monotonic()
    for lesson, proof in prove_all(lessons, whole, workspace.say.language, jobs, status.at):
        status.clear()
        rows.append((lesson, proof))
        if args.json != "-":
            _print(workspace, lesson, proof)
    status.clear()
    seconds = time.monotonic() - began
    problems = sum(len(proof.problems) for _, proof in rows)
    proofs = [
        {
            "lesson": lesson.number if lesson else None,
            "what": proof.what,
            "detail": proof.detail,
            "good": not proof.problems,
            "problems": [workspace.say.say(problem) for problem in proof.problems],
        }
        for lesson, proof in rows
    ]
    write_json(args.json, {"good": not problems, "seconds": round(seconds, 3), "jobs": jobs, "proofs": proofs})
    if args.json != "-":
        key = "selftest.wrong" if problems else "selftest.good"
        workspace.tell(key, proofs=len(rows), problems=problems, seconds=f"{seconds:.0f}")
    return 1 if problems else 0


def parse_jobs(text: str | None) -> int:
    """``--jobs``; the cores that we may use without it.

    Raises:
        Refusal: no number of processes.
    """
    from collectives.bench.settings import cores

    if text is None:
        return min(cores(), MOST_JOBS)
    if not text.isdecimal() or not 1 <= int(text[:9]) <= MOST_JOBS:
        raise Refusal("selftest.jobs", asked=text, most=MOST_JOBS)
    return int(text)


class Status:
    """On a terminal: how far it is, in a line that the next one replaces. On stderr, so that JSON stays JSON."""

    def __init__(self, workspace: Workspace) -> None:
        self._say, self._stream = workspace.say, sys.stderr
        self._shown = False

    def at(self, done: int, all: int) -> None:
        """So many lessons are proved."""
        if self._stream.isatty():
            text = shorten(self._say("selftest.at", done=done, all=all), columns() - 1)
            self._stream.write(f"\r\x1b[K{text}")
            self._stream.flush()
            self._shown = True

    def clear(self) -> None:
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._shown = False


def _print(workspace: Workspace, lesson: Lesson | None, proof: Proof) -> None:
    say = workspace.say
    mark = say("runner.check.no" if proof.problems else "runner.check.ok")
    number = f"{lesson.number:>2}" if lesson else "  "
    print(f"{number}  {mark}  {say(f'selftest.what.{proof.what}', detail=proof.detail)}", flush=True)
    for problem in proof.problems:
        print("\n".join(wrap(say.say(problem), columns(), " " * 8)))
