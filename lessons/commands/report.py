"""``report``: what the learner has got so far, on one page."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.text import Text

from ..lines import columns, wrap
from ..reading import duration
from ..refusal import Refusal
from ..report import check_target, write_json
from ..results import Result, Results, results_of
from ..text import table
from ..workspace import Workspace
from .resume import suggest_next

HELP = "your results on one page: lessons done, predictions beside the truth, answers, measurements"
EXAMPLES = """
examples:
  python -m lessons report                       here
  python -m lessons report --html results.html   as a page that works offline
  python -m lessons report --json -              for programs
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--html", metavar="FILE", help="write it as a page that works offline")
    parser.add_argument("--json", metavar="FILE", help="write it for programs (- for stdout)")


def main(args: argparse.Namespace) -> int:
    workspace = Workspace.of(args)
    check_target(args.json)
    found = results_of(workspace)
    if args.html:
        _write_page(args.html, found, workspace)
    write_json(args.json, _as_dict(found))
    if args.json != "-":
        _print(found, workspace)
        if args.html:
            print()
            workspace.tell("results.wrote", file=args.html)
        suggest_next(workspace, workspace.current)
    return 0


def _write_page(target: str, found: Results, workspace: Workspace) -> None:
    from collectives.atomic import check_writable, write_text

    from ..shell import ALONE
    from ..site.results import sections, unlinked

    say = workspace.say
    title, proves = say("site.results.title"), say("site.results.proves")
    try:
        check_writable("--html", target)
        write_text(
            target, ALONE.wrap(say, title, say("site.name"), proves, sections(found, say, unlinked), look="wide")
        )
    except ValueError as error:
        raise Refusal("runner.json", reason=str(error)) from None


def _print(found: Results, workspace: Workspace) -> None:
    say = workspace.say
    (minutes, all_minutes), (right, guesses) = found.core, found.guesses
    workspace.tell("results.summary.lessons", done=len(found.done), all=found.all)
    workspace.tell("results.summary.core", done=duration(say, minutes), all=duration(say, all_minutes))
    workspace.tell("results.summary.guesses", right=right, all=guesses)
    begun = [one for one in found.lessons if not one.is_empty]
    if begun:
        heads = [say(f"results.column.{name}") for name in ("title", "state", "quiz", "hints")]
        rows = [[*_cells(one, workspace)] for one in begun]
        cells = [[Text(cell) for cell in row] for row in (heads, *rows)]
        print("\n" + "\n".join(line.plain for line in table(cells, [False] * len(heads), columns())))
    for one in begun:
        for line in _numbers(one, workspace):
            print(line)


def _cells(one: Result, workspace: Workspace) -> Iterator[str]:
    state = workspace.say(f"runner.state.{one.state}")
    yield f"{one.lesson.number} · {one.title}"
    yield f"{state} {one.when}".strip()
    yield f"{one.quiz[0]} / {one.quiz[1]}" if one.quiz else ""
    yield str(one.hints or "")


def _numbers(one: Result, workspace: Workspace) -> Iterator[str]:
    """What was foretold, and what was measured."""
    say = workspace.say
    for guess in one.guesses:
        verdict = say(f"results.{'hit' if guess.right else 'miss'}")
        fields = {"number": one.lesson.number, "yours": guess.answer, "truth": guess.truth, "verdict": verdict}
        yield ""
        yield from wrap(say("results.guess", **fields), columns())
    for shown in one.measured:
        yield ""
        yield from wrap(say("results.measured", number=one.lesson.number, what=shown.text), columns())
        yield from (f"  {line}" for line in shown.lines)


def _as_dict(found: Results) -> dict[str, Any]:
    (minutes, all_minutes), (right, guesses) = found.core, found.guesses
    lessons = [
        {
            "lesson": one.lesson.number,
            "name": one.lesson.name,
            "title": one.title,
            "state": one.state,
            "passed": one.when or None,
            "mended": one.mended,
            "hints": one.hints,
            "quiz": None if one.quiz is None else {"right": one.quiz[0], "of": one.quiz[1]},
            "predictions": [asdict(guess) for guess in one.guesses],
            "measured": [asdict(shown) for shown in one.measured],
        }
        for one in found.lessons
    ]
    return {
        "done": len(found.done),
        "of": found.all,
        "core_minutes": {"done": minutes, "of": all_minutes},
        "predictions": {"right": right, "of": guesses},
        "lessons": lessons,
    }
