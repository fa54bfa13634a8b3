"""A check as it is read: a line for each property that holds, a paragraph for each that does not; or JSON."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from collectives.sentence import Sentence

from .lines import DIM, GREEN, RED, colour, columns, shorten, without_controls, wrap
from .order import Event
from .refusal import Refusal
from .said import Finding, Passed, Said, Shown, Skipped, Speech
from .verdict import Verdict
from .workspace import Workspace

PRINTED, TRACEBACK, LONGEST = 20, 40, 200  # lines that are shown, and letters of a line


def _bounded(text: str, most: int) -> list[str]:
    """The lines of somebody else's program that are shown: the first and the last, each cut where it is long."""
    lines = text.split("\n")
    if len(lines) > most:
        lines = [*lines[: most // 2], "…", *lines[-(most // 2) :]]
    return [line if len(line) <= LONGEST else line[: LONGEST - 1] + "…" for line in lines]


class Report:
    """Prints what a check finds, as it comes; on a terminal also what it is at."""

    def __init__(self, workspace: Workspace) -> None:
        self.say = workspace.say
        self._status = False

    def heard(self, event: Event) -> None:
        self.clear()
        if isinstance(event, Passed):
            self._lines(colour(self.say("runner.check.ok"), GREEN), self._passed(event))
        elif isinstance(event, Finding):
            self._finding(event)
        elif isinstance(event, Skipped):
            self._lines("--", self.say.say(event.sentence))
        elif isinstance(event, Shown):
            self._shown(event)
        self.at(event if isinstance(event, Said) else None)

    def at(self, what: Said | None) -> None:
        """On a terminal: ``checking…``, which the next line replaces."""
        if sys.stdout.isatty():
            text = self.say("runner.check.at", what=what) if what else self.say("runner.check.checking")
            sys.stdout.write("  " + colour(shorten(text, columns() - 3), DIM))
            sys.stdout.flush()
            self._status = True

    def clear(self) -> None:
        if self._status:
            sys.stdout.write("\r\x1b[K")
            self._status = False

    def close(self, verdict: Verdict) -> None:
        """What the learner's file has printed, and why the check did not come to its end."""
        self.clear()
        assert verdict.ending is not None
        if verdict.said is not None:
            self._lines(colour(self.say("runner.check.no"), RED), self.say.say(verdict.said))
        printed = verdict.ending.printed
        head, tail = (without_controls(text).rstrip("\n") for text in printed.parts())
        if head.strip():
            print("\n" + "\n".join(wrap(self.say("child.printed"), columns())))
            print("\n".join(f"  | {line}" for line in _bounded(head, PRINTED)))
        if printed.dropped:
            print("\n".join(wrap(self.say("child.dropped", count=printed.dropped), columns())))
            print("\n".join(f"  | {line}" for line in _bounded(tail, PRINTED)))

    def _passed(self, event: Passed) -> str:
        what = self.say.say(event.sentence)
        if event.got:
            key = "runner.check.got_limit" if event.limit else "runner.check.got"
            what = self.say(key, what=what, got=event.got, limit=event.limit)
        elif len(event.ranks) > 1:
            what = self.say("runner.check.ranks", what=what, ranks=[str(rank) for rank in event.ranks])
        named = not event.function or what.startswith(event.function)
        return what if named else self.say("runner.check.of", function=event.function, what=what)

    def _finding(self, event: Finding) -> None:
        what = self.say.say(event.sentence)
        if event.function and event.function not in what:
            what = self.say("runner.check.of", function=event.function, what=what)
        self._lines(colour(self.say("runner.check.no"), RED), what)
        for line in event.picture:
            print("\n".join(wrap(line, columns(), " " * 6)))
        for detail in event.details:
            text = self.say.say(detail)
            if isinstance(detail, (Said, Sentence)):
                print("\n".join(wrap(text, columns(), " " * 6)))
            else:  # a traceback
                print("\n".join(f"      {line}" for line in _bounded(without_controls(text), TRACEBACK)))

    def _shown(self, event: Shown) -> None:
        print()
        self._lines("  ", self.say.say(event.sentence))
        if event.lines:
            print("\n".join(["", *(f"      {line}" for line in event.lines)]))
        for detail in event.details:
            print()
            self._lines("  ", self.say.say(detail))

    def _lines(self, mark: str, text: str) -> None:
        first, *rest = wrap(without_controls(text), columns() - 6)
        print(f"  {mark}  {first}")
        for line in rest:
            print(f"      {line}")


def as_dict(verdict: Verdict, workspace: Workspace) -> dict[str, Any]:
    """A verdict for ``--json``."""
    say, ending = workspace.say, verdict.ending
    assert ending is not None
    head, tail = ending.printed.parts()
    return {
        "lesson": verdict.lesson.number,
        "name": verdict.lesson.name,
        "broken": verdict.broken,
        "good": verdict.good,
        "recorded": verdict.recorded,
        "seconds": round(ending.seconds, 3),
        "ending": ending.how,
        "said": None if verdict.said is None else _spoken(verdict.said, say.say),
        "passed": [
            {**_spoken(one.sentence, say.say), "function": one.function, "ranks": list(one.ranks)}
            | {"got": one.got, "limit": one.limit}
            for one in verdict.passed
        ],
        "findings": [
            {**_spoken(one.sentence, say.say), "function": one.function, "ranks": one.ranks}
            | {"picture": list(one.picture), "details": [say.say(detail) for detail in one.details]}
            for one in verdict.findings
        ],
        "skipped": [{**_spoken(one.sentence, say.say), "function": one.function} for one in verdict.skipped],
        "measured": [
            {**_spoken(one.sentence, say.say), "details": [_spoken(detail, say.say) for detail in one.details]}
            | dict(one.numbers)
            for one in verdict.measured
        ],
        "printed": {"head": head, "tail": tail, "dropped": ending.printed.dropped},
    }


def _spoken(what: Speech, say: Any) -> dict[str, Any]:
    id = "" if isinstance(what, str) and not isinstance(what, Sentence) else what.id
    return {"id": id, "sentence": say(what)}


def check_target(target: str | None) -> None:
    """Refuse a place for a file before any work is done.

    Raises:
        Refusal: it cannot be written to.
    """
    from collectives.atomic import check_writable

    if target and target != "-":
        try:
            check_writable("--json", target)
        except ValueError as error:
            raise Refusal("runner.json", reason=str(error)) from None


def write_json(target: str | None, content: Mapping[str, Any]) -> None:
    """To a file, all or nothing; to stdout for ``-``; nowhere for None."""
    from sim.commands import output

    check_target(target)
    output.write_json(target, dict(content))


def print_markdown(text: str, first: str = "") -> None:
    """A text of the course in lines that fit, ``first`` before the first one; code is set apart, without colour."""
    from .text import Terminal

    lines = Terminal(columns() - len(first), True, lambda name, caption: []).lines(text)
    for number, line in enumerate(lines):
        print(((first if not number else " " * len(first)) + line.plain).rstrip())
