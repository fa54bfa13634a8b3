"""``selftest``: does the course keep what it promises?"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

from ..lesson import Lesson
from ..lines import columns, wrap
from ..manifest import COURSE
from ..report import check_target, write_json
from ..selftest import Proof, prove_catalogue, prove_lesson
from ..workspace import Workspace

HELP = "check the course itself: stubs, solutions, planted faults, numbers, pictures, languages"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("lesson", nargs="?", default="all", metavar="n|all", help="number or name (default: all)")
    parser.add_argument("--json", metavar="FILE", help="write what was found (- for stdout)")
    parser.epilog = "exit status: 0 if all holds, 1 if something does not, 2 for a wrong argument"


def main(args: argparse.Namespace) -> int:
    from ..child import warm

    workspace = Workspace.of(args)
    check_target(args.json)
    lessons = COURSE if args.lesson == "all" else (workspace.lesson(args.lesson),)
    warm()
    rows, began = [], time.monotonic()
    for lesson, proof in _proofs(workspace, lessons, args.lesson == "all"):
        rows.append((lesson, proof))
        if args.json != "-":
            _print(workspace, lesson, proof)
    problems = sum(len(proof.problems) for _, proof in rows)
    write_json(
        args.json,
        {
            "good": not problems,
            "seconds": round(time.monotonic() - began, 3),
            "proofs": [
                {
                    "lesson": lesson.number if lesson else None,
                    "what": proof.what,
                    "detail": proof.detail,
                    "good": not proof.problems,
                    "problems": [workspace.say.say(problem) for problem in proof.problems],
                }
                for lesson, proof in rows
            ],
        },
    )
    if args.json != "-":
        seconds = f"{time.monotonic() - began:.0f}"
        key = "selftest.wrong" if problems else "selftest.good"
        workspace.tell(key, proofs=len(rows), problems=problems, seconds=seconds)
    return 1 if problems else 0


def _proofs(workspace: Workspace, lessons: tuple[Lesson, ...], whole: bool) -> Iterator[tuple[Lesson | None, Proof]]:
    for lesson in lessons:
        for proof in prove_lesson(lesson, workspace.say):
            yield lesson, proof
    if whole:
        for proof in prove_catalogue():
            yield None, proof


def _print(workspace: Workspace, lesson: Lesson | None, proof: Proof) -> None:
    say = workspace.say
    mark = say("runner.check.no" if proof.problems else "runner.check.ok")
    number = f"{lesson.number:>2}" if lesson else "  "
    print(f"{number}  {mark}  {say(f'selftest.what.{proof.what}', detail=proof.detail)}", flush=True)
    for problem in proof.problems:
        print("\n".join(wrap(say.say(problem), columns(), " " * 8)))
