"""A learner's file, checked in a child: what was found, and how it ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .bounds import Bounds
from .catalogue import Catalogue
from .checks.measurement import Measurement
from .child import Child, Ending
from .lesson import Check, Lesson
from .manifest import lesson_numbered
from .order import Event, InOrder
from .said import Finding, Passed, Said, Shown, Skipped
from .workspace import State, Workspace, digest

Judging = Callable[[int, Path, str, bool, tuple[int, ...]], Iterator[Event]]


@dataclass
class Verdict:
    """What came of one check. ranks: those that were asked for, in place of the lesson's own.

    recorded: it counts as done from now on.
    """

    lesson: Lesson
    broken: bool
    ranks: tuple[int, ...]
    passed: list[Passed] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    measured: list[Shown] = field(default_factory=list)
    ending: Ending | None = None
    recorded: bool = False

    @property
    def said(self) -> Said | None:
        """Why the check did not come to its end; None if it did."""
        ended = self.ending.said() if self.ending else None
        if ended is None and not self.passed and not self.findings:
            return Said("child.silent", {"during": Said("child.at_once")})
        return ended

    @property
    def good(self) -> bool:
        return self.ending is not None and not self.findings and self.said is None

    @property
    def enough(self) -> bool:
        """What the lesson needs is right; something extra may be wrong."""
        wrong = {one.function for one in self.findings} | {one.function for one in self.skipped if one.function}
        return self.good or (not self.broken and self.said is None and wrong <= set(self.lesson.extra))


def judging(number: int, path: Path, language: str, broken: bool, ranks: tuple[int, ...]) -> Iterator[Event]:
    """``judge``, in the child: from arguments that can go to another process."""
    from .judge import judge

    yield from judge(lesson_numbered(number), path, Catalogue(language), twin=broken, ranks=ranks)


def examine(
    workspace: Workspace,
    lesson: Lesson,
    heard: Callable[[Event], None],
    broken: bool = False,
    ranks: tuple[int, ...] = (),
    judging: Judging = judging,
    bounds: Bounds | None = None,
) -> Verdict:
    """Check the learner's file of ``lesson``; ``heard`` is told each event as soon as its turn has come. Nothing is
    recorded."""
    verdict = Verdict(lesson, broken, ranks)
    file = workspace.file(lesson, broken)
    arguments = (lesson.number, file, workspace.say.language, broken, ranks)
    kept: dict[type, list[Any]] = {
        Passed: verdict.passed,
        Finding: verdict.findings,
        Skipped: verdict.skipped,
        Shown: verdict.measured,
    }

    def keep(event: Event) -> None:
        kept.get(type(event), []).append(event)
        heard(event)

    checks = lesson.twin.checks if broken and lesson.twin else lesson.checks
    order = InOrder(checks, keep)
    with Child(judging, *arguments, folder=workspace.folder, bounds=bounds or _bounds(checks)) as child:
        for event in child.events():
            order.heard(event)  # type: ignore[arg-type]
    order.close()
    verdict.ending = child.ending
    return verdict


def _bounds(checks: Sequence[Check]) -> Bounds:
    """The usual ones, or what a measurement of these needs here."""
    bounds = Bounds()
    for check in checks:
        if isinstance(check, Measurement):
            bounds = check.bounds(bounds)
    return bounds


def record(workspace: Workspace, verdict: Verdict, sha256: str) -> None:
    """A verdict good enough makes the lesson done if its file is still the one with ``sha256`` that was checked.

    Raises:
        Refusal: see ``Progress.change``.
    """
    from .progress import now

    lesson, broken = verdict.lesson, verdict.broken
    if not verdict.enough or verdict.ranks or digest(workspace.file(lesson, broken)) != sha256:
        return
    with workspace.progress.change():
        kept = workspace.progress.lesson(lesson.name, broken)
        kept["state"] = State.PASSED
        kept["passed"] = {"sha256": sha256, "when": now()}
        if verdict.measured:
            say = workspace.say.say
            kept["measured"] = [
                {
                    # what is said below a table is for the moment; without a table it is all there is
                    "text": " ".join(map(say, (one.sentence, *(() if one.lines else one.details)))),
                    "lines": list(one.lines),
                    "numbers": dict(one.numbers),
                }
                for one in verdict.measured
            ]
    verdict.recorded = True
