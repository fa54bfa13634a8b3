"""The course checks itself: stubs fail as they should, solutions pass, faults are named, texts and pictures are whole.

All of it through what learners use: files written as ``start`` writes them, judged in the same child as theirs.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass
from string import Formatter
from tempfile import TemporaryDirectory

from . import mentions, parity
from .catalogue import LANGUAGES, Catalogue
from .child import warm
from .lesson import Lesson
from .manifest import lesson_numbered
from .reading import Reading
from .said import Finding, Said
from .source import source_of
from .verdict import Verdict, examine
from .workspace import Workspace

RANKS = (2, 3, 4)


@dataclass(frozen=True)
class Proof:
    """One property of a lesson that has been looked at. problems: none if it holds; detail: what was looked at."""

    what: str
    problems: tuple[Said, ...]
    detail: str = ""


def prove_all(
    lessons: Sequence[Lesson], whole: bool, language: str, jobs: int, heard: Callable[[int, int], None]
) -> Iterator[tuple[Lesson | None, Proof]]:
    """The proofs of ``lessons`` in their order, and if it is the ``whole`` course of the catalogue; ``jobs`` of them at
    a time, each in a process.

    heard: is told how many are proved, of how many, whenever one is.
    """
    numbers = [*(lesson.number for lesson in lessons), *[None] * whole]
    context = multiprocessing.get_context("spawn")  # each with children of its own, and nothing of ours
    with ProcessPoolExecutor(min(jobs, len(numbers)), mp_context=context, initializer=_warm) as pool:
        heard(0, len(numbers))
        asked = {number: pool.submit(_proofs_of, number, language) for number in numbers}
        try:
            for number, future in asked.items():
                while not future.done():
                    wait([one for one in asked.values() if not one.done()], return_when=FIRST_COMPLETED)
                    heard(sum(one.done() for one in asked.values()), len(asked))
                for proof in future.result():
                    yield None if number is None else lesson_numbered(number), proof
                heard(sum(one.done() for one in asked.values()), len(asked))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _warm() -> None:
    """In a process of the pool: import what each of its children would import for itself, among it torch's compiler,
    which any optimizer asks for."""
    warm()
    import torch._dynamo  # noqa: F401

    import collectives.moving
    import collectives.recorder
    import collectives.reducing  # noqa: F401

    from . import judge  # noqa: F401
    from .checks import experiments, rehearsal  # noqa: F401


def _proofs_of(number: int | None, language: str) -> list[Proof]:
    """In a process of the pool."""
    say = Catalogue(language)
    return list(prove_catalogue() if number is None else prove_lesson(lesson_numbered(number), say))


def prove_lesson(lesson: Lesson, say: Catalogue) -> Iterator[Proof]:
    """Each property of ``lesson`` in turn, as it is proved."""
    with TemporaryDirectory(prefix="selftest-") as folder:
        workspace = Workspace(folder, say.language)
        if lesson.checks:
            yield _stub(lesson, workspace)
            yield _solution(lesson, workspace)
        if lesson.extra:
            yield _needed(lesson, workspace)
        if lesson.twin:
            yield _twin(lesson, workspace)
    yield _numbers(lesson)
    yield _pictures(lesson)


def prove_catalogue() -> Iterator[Proof]:
    """The languages beside each other, and the sentences beside the code that says them."""
    yield Proof(
        "sentences",
        _said(mentions.problems()),
        str(sum(len(t) for t in parity.read(parity.ROOT / "catalogue" / "en").values())),
    )
    for language in LANGUAGES[1:]:
        yield Proof("language", _said(parity.problems(language)), language)


def _said(problems: list[str]) -> tuple[Said, ...]:
    return tuple(Said("selftest.problem", {"problem": problem}) for problem in problems)


def _judged(lesson: Lesson, source: str, workspace: Workspace, broken: bool, ranks: tuple[int, ...] = ()) -> Verdict:
    workspace.folder.mkdir(exist_ok=True)
    workspace.file(lesson, broken).write_text(source, encoding="utf-8")
    return examine(workspace, lesson, lambda event: None, broken, ranks)


def _named(finding: Finding) -> str:
    return getattr(finding.sentence, "id", "")


def _stub(lesson: Lesson, workspace: Workspace) -> Proof:
    """It fails, with one sentence, for the reason that it is not written yet."""
    verdict = _judged(lesson, source_of(lesson, "stub", workspace.say), workspace, broken=False)
    named = [_named(finding) for finding in verdict.findings]
    wrong = (
        [] if named == [lesson.stub] and verdict.said is None else [_unlike("stub", [lesson.stub], verdict, workspace)]
    )
    return Proof("stub", tuple(wrong), lesson.stub)


def _solution(lesson: Lesson, workspace: Workspace) -> Proof:
    """It passes, on each number of ranks."""
    verdict = _judged(lesson, source_of(lesson, "solution", workspace.say), workspace, broken=False, ranks=RANKS)
    wrong = [] if verdict.good else [_unlike("solution", [], verdict, workspace)]
    return Proof("solution", tuple(wrong), ", ".join(map(str, RANKS)))


def _needed(lesson: Lesson, workspace: Workspace) -> Proof:
    """The solution passes without what is extra, and what is measured can do without it, too."""
    source = source_of(lesson, "solution", workspace.say).partition(f"# {workspace.say('course.extra')}")[0]
    verdict = _judged(lesson, source, workspace, broken=False, ranks=RANKS[:1])
    wrong = (
        []
        if verdict.good and all(one.numbers for one in verdict.measured)
        else [_unlike("needed", [], verdict, workspace)]
    )
    return Proof("needed", tuple(wrong), ", ".join(lesson.extra))


def _twin(lesson: Lesson, workspace: Workspace) -> Proof:
    """Every planted fault is caught and named, and the solution's way is no fault."""
    assert lesson.twin is not None
    faults = list(lesson.twin.faults)
    verdict = _judged(lesson, source_of(lesson, "broken", workspace.say), workspace, broken=True)
    named = [_named(finding) for finding in verdict.findings]
    wrong = [] if named == faults and verdict.said is None else [_unlike("twin", faults, verdict, workspace)]
    mended = _judged(lesson, source_of(lesson, "solution", workspace.say), workspace, broken=True)
    if not mended.good:
        wrong.append(_unlike("mended", [], mended, workspace))
    return Proof("twin", tuple(wrong), ", ".join(faults))


def _unlike(what: str, wanted: list[str], verdict: Verdict, workspace: Workspace) -> Said:
    """What was said in place of what should have been."""
    said = [f"{_named(finding)}: {workspace.say.say(finding.sentence)}" for finding in verdict.findings]
    if verdict.said is not None:
        said.append(workspace.say.say(verdict.said))
    fields = {"wanted": wanted or "–", "said": " / ".join(said) or "–", "ranks": ", ".join(map(str, verdict.ranks))}
    return Said(f"selftest.{what}", fields)


def _numbers(lesson: Lesson) -> Proof:
    """Every number of the text comes from the library, in every language, and every text is whole."""
    problems = _said(parity.numbers(lesson))
    count = 0
    for language in LANGUAGES:
        reading = Reading(lesson, Catalogue(language))
        try:
            for key, text in reading.say.table(lesson.table).items():
                count += sum(field is not None for _, field, _, _ in Formatter().parse(text))
                reading.text(key)
        except (KeyError, ValueError, IndexError) as error:
            problems += _said([f"{language} {lesson.table}.{key}: {error}"])
    return Proof("numbers", problems, str(count))


def _pictures(lesson: Lesson) -> Proof:
    """Every figure is drawn anew, for terminal and page, in every language, and so is the page."""
    from .page import page

    problems: tuple[Said, ...] = ()
    for language in LANGUAGES:
        say = Catalogue(language)
        for name, figure in lesson.figures.items():
            if not any(line.plain.strip() for line in figure.lines(say, 80)) or "<" not in figure.html(say):
                problems += _said([f"{language} {lesson.table}: {name}"])
        page(Reading(lesson, say), lambda *words: " ".join(map(str, words)), (None, None))
    return Proof("pictures", problems, str(len(lesson.figures)))
