"""``check``: the learner's file against the checks of its lesson."""

from __future__ import annotations

import argparse

from ..bounds import Bounds
from ..lesson import Lesson
from ..manifest import COURSE
from ..refusal import Refusal
from ..report import Report, as_dict, check_target, write_json
from ..verdict import Judging, Verdict, examine, judging, record
from ..workspace import State, Suggestion, Workspace, digest
from .hint import has_more
from .resume import after, suggest_next, tell_all_done, twin
from .start import need_twin, tell_needs

HELP = "check your file: is it right, and is it cheap enough?"
MOST_RANKS = 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("lesson", nargs="?", metavar="n|all", help="number or name (default: the current lesson)")
    parser.add_argument("--broken", action="store_true", help="the lesson's broken twin, which you have mended")
    parser.add_argument("--ranks", metavar="N|A-B|A,B", help="real processes, in place of the lesson's own choice")
    parser.add_argument("--json", metavar="FILE", help="write what was found (- for stdout)")
    parser.epilog = "exit status: 0 if all is right, 1 if something is not, 2 for a wrong argument"


def main(args: argparse.Namespace) -> int:
    workspace = Workspace.of(args)
    ranks = parse_ranks(args.ranks)
    check_target(args.json)
    quiet = args.json == "-"
    if args.lesson == "all":
        return check_all(workspace, ranks, args.broken, args.json)
    lesson = workspace.lesson(args.lesson)
    need_file(workspace, lesson, args.broken)
    if not quiet:
        tell_needs(workspace, lesson)
    verdict = check(workspace, lesson, args.broken, ranks, quiet)
    write_json(args.json, as_dict(verdict, workspace))
    if not quiet:
        advise(workspace, verdict)
    return 0 if verdict.good else 1


def check(
    workspace: Workspace,
    lesson: Lesson,
    broken: bool = False,
    ranks: tuple[int, ...] = (),
    quiet: bool = False,
    judging: Judging = judging,
    bounds: Bounds | None = None,
) -> Verdict:
    """Check one file, print what is found (unless ``quiet``), and record a pass."""
    report = Report(workspace)
    file = workspace.file(lesson, broken)
    if not quiet:
        workspace.tell("runner.check.begins", number=lesson.number, file=workspace.shown(file))
        report.at(None)
    sha256 = digest(file)
    try:
        heard = (lambda event: None) if quiet else report.heard
        verdict = examine(workspace, lesson, heard, broken, ranks, judging, bounds)
    except KeyboardInterrupt:
        report.clear()
        raise
    if not quiet:
        report.close(verdict)
    record(workspace, verdict, sha256)
    return verdict


def check_all(workspace: Workspace, ranks: tuple[int, ...], broken: bool, target: str | None) -> int:
    """Every lesson that has been started and whose file has not passed as it is."""
    quiet = target == "-"
    begun = [lesson for lesson in COURSE[1:] if workspace.file(lesson, broken).exists()]
    todo = [lesson for lesson in begun if workspace.state(lesson, broken) is not State.PASSED]
    if len(todo) > 1:
        from ..child import warm

        warm()
    verdicts = []
    for number, lesson in enumerate(begun):
        if not quiet and number:
            print()
        if lesson in todo:
            verdicts.append(check(workspace, lesson, broken, ranks, quiet))
            if not quiet:
                summarise(workspace, verdicts[-1])
        elif not quiet:
            workspace.tell("runner.check.unchanged", number=lesson.number, title=workspace.title(lesson))
    write_json(target, {"checks": [as_dict(verdict, workspace) for verdict in verdicts]})
    wrong = [verdict.lesson for verdict in verdicts if not verdict.good]
    if not begun and not quiet:
        key = "runner.check.no_twins" if broken else "runner.check.none"
        workspace.tell(key, command=workspace.command("start", *["1", "--broken"] * broken))
    elif wrong and not quiet:
        print()
        workspace.suggest(("runner.next.mend", ("check", wrong[0].number, *["--broken"] * broken)))
    elif not quiet:
        suggest_next(workspace, workspace.current)
    return 1 if wrong else 0


def need_file(workspace: Workspace, lesson: Lesson, broken: bool) -> None:
    """Refuse a lesson that has nothing to check.

    Raises:
        Refusal: it is the tour, it has no twin, or the learner has not begun.
    """
    if lesson.number == 0:
        following = after(workspace, lesson)
        words = following[1] if following else ("list",)
        raise Refusal("runner.check.tour", command=workspace.command(*words))
    need_twin(lesson, broken)
    file = workspace.file(lesson, broken)
    if not file.is_file():
        command = workspace.command("start", lesson.number, *["--broken"] * broken)
        raise Refusal("runner.no_file", file=workspace.shown(file), command=command)


def summarise(workspace: Workspace, verdict: Verdict) -> None:
    """The result in a line."""
    assert verdict.ending is not None
    lesson, seconds = verdict.lesson, f"{verdict.ending.seconds:.1f}"
    if not verdict.good:
        count = len(verdict.findings) + (verdict.said is not None)
        workspace.tell("runner.check.wrong", count=count, right=len(verdict.passed), seconds=seconds)
        if verdict.recorded:
            workspace.tell("runner.check.enough", number=lesson.number, title=workspace.title(lesson))
    elif verdict.ranks:
        workspace.tell("runner.check.some_ranks", ranks=[str(rank) for rank in verdict.ranks], seconds=seconds)
    elif not verdict.recorded:
        workspace.tell("runner.check.edited", seconds=seconds)
    else:
        key = "runner.check.mended" if verdict.broken else "runner.check.done"
        workspace.tell(key, number=lesson.number, title=workspace.title(lesson), seconds=seconds)


def advise(workspace: Workspace, verdict: Verdict, again: bool = True) -> None:
    """The result, and what to type next; not to check ``again`` where that happens by itself."""
    print()
    summarise(workspace, verdict)
    commands = [one for one in suggestions(workspace, verdict) if again or one[0] != "runner.next.again"]
    if commands:
        print()
        workspace.suggest(*commands)
    if verdict.recorded and after(workspace, verdict.lesson) is None:
        print()
        tell_all_done(workspace)


def suggestions(workspace: Workspace, verdict: Verdict) -> list[Suggestion]:
    """What to type next; the last is the way on."""
    lesson, option = verdict.lesson, ["--broken"] * verdict.broken
    again: Suggestion = ("runner.next.again", ("check", lesson.number, *option))
    solution: Suggestion = ("runner.next.solution", ("solution", lesson.number, *option))
    if not verdict.good:
        if verdict.broken:
            return [again]
        more = has_more(workspace, lesson)
        way_on = after(workspace, lesson) if verdict.recorded else None
        return [
            ("runner.next.hint", ("hint", lesson.number)) if more else solution,
            again,
            *([way_on] if way_on else []),
        ]
    if not verdict.recorded:
        return [solution, ("runner.next.whole", again[1]) if verdict.ranks else again]
    commands = [solution]
    if "quiz" not in workspace.progress.lesson(lesson.name):
        commands.append(("runner.next.quiz", ("quiz", lesson.number)))
    if lesson.twin and workspace.state(lesson, broken=True) is not State.PASSED:
        commands.append(twin(workspace, lesson))
    way_on = after(workspace, lesson)
    return [*(command for command in commands if command != way_on), *([way_on] if way_on else [])]


def parse_ranks(text: str | None) -> tuple[int, ...]:
    """``--ranks``; empty for the lesson's own.

    Raises:
        Refusal: no list of numbers, or too many processes.
    """
    from collectives.commands import proving

    if text is None:
        return ()
    try:
        short = all(len(number) <= 3 for number in text.replace("-", ",").split(","))
        ranks = proving.parse_ranks(text) if short else []
    except ValueError:
        ranks = []
    if not ranks or ranks[0] < 2 or ranks[-1] > MOST_RANKS:
        raise Refusal("runner.check.bad_ranks", asked=text, most=MOST_RANKS)
    return tuple(ranks)
