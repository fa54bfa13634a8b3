"""A learner's file against the checks of its lesson: what holds and what is wrong, as it is found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .answer import Answer, load_answer, read_answer, unwritten, used_by
from .catalogue import Catalogue
from .checks.bare import Bare
from .checks.formula import Formula
from .checks.launched import Launched
from .checks.measurement import Measurement
from .checks.pipelined import run_timetables
from .checks.program import Program
from .checks.real import run_programs
from .checks.timetable import Timetable
from .checks.trial import Trial
from .lesson import Judged, Lesson
from .said import Finding, Passed, Said, Shown, Skipped


def judge(
    lesson: Lesson, path: Path, say: Catalogue, *, twin: bool = False, ranks: tuple[int, ...] = ()
) -> Iterator[Said | Passed | Finding | Shown | Skipped]:
    """Run the checks of ``lesson`` (or of its broken twin) on the file at ``path``, cheap to dear.

    Yields a ``Said`` when something begins that takes time, a ``Passed`` for each property that holds, and a
    ``Finding`` for each that does not; where all hold, a ``Shown`` for what is measured then. The learner's code runs
    in this process and in ranks that it forks, so call it in a child.

    Args:
        say: pictures are drawn in its language.
        ranks: real ranks, in place of those of the checks.
    """
    every = lesson.twin.checks if twin and lesson.twin else lesson.checks
    checks = [check for check in every if not isinstance(check, Measurement)]
    names = [check.function for check in checks]
    source = read_answer(path)
    if isinstance(source, Finding):
        yield source
        return
    yield Said("check.loading", {"file": path.name})
    todo = unwritten(source, names)
    extra = () if twin else lesson.extra
    needed = {name: line for name, line in todo.items() if name not in extra}
    answer = load_answer(path, source)
    if isinstance(answer, Finding):
        yield answer
        return
    written: list[Judged] = []
    wrong: set[str] = set(needed)  # what uses an extra one that is not there has to do without it, and is run
    for check in checks:
        if check.function in extra and not hasattr(answer.module, check.function):
            todo[check.function] = 0
        function = check.function in todo or answer.function(check.function, names)
        if isinstance(function, Finding):
            wrong.add(check.function)
            yield function
        elif check.function not in todo:
            written.append(check)
    uses = used_by(source, names)

    def ready(check: Judged) -> Said | None:
        """What is wrong with a function is wrong with those that use it too, and told once."""
        first = next((name for name in names if name in uses.get(check.function, ()) and name in wrong), None)
        return Said("check.later", {"function": check.function, "first": first}) if first else None

    for stage in (_cheap, _on_ranks):
        for check in written:
            if check.function in wrong:
                continue
            later = ready(check)
            if later is not None:
                wrong.add(check.function)
                yield Skipped(later, check.function)
                continue
            for result in stage(check, answer, say, ranks):
                if isinstance(result, Finding):
                    wrong.add(check.function)
                yield result
    programs = [check for check in written if isinstance(check, Program) and check.function not in wrong]
    timetables = [check for check in written if isinstance(check, Timetable) and check.function not in wrong]
    if programs:
        yield Said("check.running", {"functions": [program.function for program in programs]})
        yield from _told(run_programs(programs, answer, ranks), wrong)
    if timetables:
        yield Said("check.running", {"functions": [timetable.function for timetable in timetables]})
        yield from _told(run_timetables(timetables, answer, ranks), wrong)
    if needed:
        first = next(iter(needed))
        fields = {"functions": list(needed), "first": first, "line": needed[first], "file": path.name}
        yield Finding(Said("file.todo", fields), first)
    elif not wrong:
        if left := [name for name in extra if name in todo]:
            yield Skipped(Said("check.extra", {"functions": left}), "")
        for measured in (check for check in every if isinstance(check, Measurement)):
            yield from measured.shown(answer, say, ranks)


def _told(results: Iterator[Passed | Finding], wrong: set[str]) -> Iterator[Passed | Finding]:
    """As they are; functions that turn out wrong are noted."""
    for result in results:
        if isinstance(result, Finding):
            wrong.add(result.function)
        yield result


def _cheap(check: Judged, answer: Answer, say: Catalogue, ranks: tuple[int, ...]) -> Iterator[Said | Passed | Finding]:
    if not isinstance(check, (Bare, Launched, Trial)):
        begins = "check.computing" if isinstance(check, Formula) else "check.reading"
        yield Said(begins, {"function": check.function})
        yield from check.cheap(answer, say)


def _on_ranks(
    check: Judged, answer: Answer, say: Catalogue, ranks: tuple[int, ...]
) -> Iterator[Said | Passed | Finding]:
    if isinstance(check, (Bare, Launched, Trial)):
        begins = "alone.check.running" if (ranks or check.ranks) == (1,) else "check.running"
        yield Said(begins, {"functions": [check.function]})
        yield from check.dear(answer, say, ranks)
