"""What lesson 6 measures once its functions are right: real ranks, whose times nobody can promise, in a fixed form."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.cells import cell_len

from lessons import mentions, parity
from lessons.answer import Answer, load_answer
from lessons.catalogue import Catalogue
from lessons.checks import measured, measurement
from lessons.checks.measured import Measured, Row
from lessons.commands.check import check
from lessons.judge import judge
from lessons.manifest import COURSE
from lessons.report import as_dict
from lessons.said import Finding, Passed, Said, Shown
from lessons.source import source_of
from lessons.workspace import Workspace, digest

SAY = Catalogue()
LESSON = COURSE[6]
SMALL = Measured(messages=(1 << 10, 1 << 12, 1 << 14), buffers=(1 << 12,), ranks=2)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The learner's, in which nothing has passed yet."""
    monkeypatch.setenv("LESSONS_FOLDER", str(tmp_path))
    return tmp_path


@pytest.fixture
def solved(folder: Path) -> Path:
    path = folder / f"{LESSON.folder}.py"
    path.write_text(source_of(LESSON, "solution", SAY), "utf-8")
    return path


def loaded(path: Path) -> Answer:
    answer = load_answer(path, path.read_text(encoding="utf-8"))
    assert isinstance(answer, Answer)
    return answer


def measure(path: Path, what: Measured = SMALL, say: Catalogue = SAY) -> list[Shown]:
    return [one for one in what.shown(loaded(path), say) if isinstance(one, Shown)]


def ids(shown: list[Shown]) -> list[str]:
    return [one.sentence.id for one in shown if isinstance(one.sentence, Said)]


def pass_lesson_5(folder: Path, text: str) -> None:
    lesson = COURSE[5]
    file = folder / f"{lesson.folder}.py"
    file.write_text(text, "utf-8")
    workspace = Workspace(str(folder))
    with workspace.progress.change():
        workspace.progress.lesson(lesson.name)["passed"] = {"sha256": digest(file), "when": "today"}


def test_a_right_file_is_measured_and_passes(solved: Path) -> None:
    events = list(judge(LESSON, solved, SAY))
    assert [one.function for one in events if isinstance(one, Passed)] == ["ring_time", "bus_bandwidth", "fit"]
    assert not [one for one in events if isinstance(one, Finding)]
    shown = [one for one in events if isinstance(one, Shown)]
    assert ids(shown) == ["measured.message", "measured.library"]
    assert events[-1] is shown[-1]
    for one in shown:
        assert pickle.loads(pickle.dumps(one)) == one
        SAY.say(one.sentence)

    module, message, ring = loaded(solved).module, shown[0].numbers, shown[1].numbers
    points = [(point["bytes"], point["seconds"]) for point in message["points"]]
    assert [nbytes for nbytes, _ in points] == [1 << 10, 1 << 13, 1 << 16, 1 << 18, 1 << 20, 1 << 22]
    assert all(0 < seconds < 1 for _, seconds in points)
    assert module.fit(points) == (message["alpha"], message["beta"])
    assert (ring["ring"], [row["bytes"] for row in ring["sizes"]]) == ("library", [1 << 16, 1 << 20, 1 << 23])
    assert ring["ranks"] == (4 if ring["cores"] > 1 else 2)
    for row in ring["sizes"]:
        nbytes = row["bytes"]
        assert 0 < row["measured"] < 5 > row["gloo"] > 0
        assert row["predicted"] == module.ring_time(ring["ranks"], nbytes, message["alpha"], message["beta"])
        assert row["busbw"] == module.bus_bandwidth(ring["ranks"], nbytes, row["measured"])
        assert row["gloo_busbw"] == module.bus_bandwidth(ring["ranks"], nbytes, row["gloo"])
        assert row["ratio"] == row["predicted"] / row["measured"]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_tables_are_aligned_and_fit(solved: Path, language: str) -> None:
    message, ring = measure(solved, say=Catalogue(language))
    assert len(message.lines) == 2 + len(SMALL.messages)
    assert len(ring.lines) == 2 + len(SMALL.buffers)
    for one in (message, ring):
        assert len({cell_len(line) for line in one.lines}) == 1  # every column is flush right
        assert cell_len(one.lines[0]) <= measurement.WIDTH
    assert "1 KiB" in message.lines[2]
    assert "GB/s" in ring.lines[2]


def test_the_ring_is_the_learners_once_lesson_5_has_passed(solved: Path) -> None:
    pass_lesson_5(solved.parent, source_of(COURSE[5], "solution", SAY))
    message, ring = measure(solved)
    assert ids([message, ring]) == ["measured.message", "measured.yours"]
    assert ring.numbers["ring"] == "yours"
    assert "yours" in ring.lines[0]


def test_another_number_of_ranks(solved: Path) -> None:
    shown = [one for one in SMALL.shown(loaded(solved), SAY, (2, 3)) if isinstance(one, Shown)]
    assert shown[1].numbers["ranks"] == 3


@pytest.mark.parametrize("function", ["ring_time", "bus_bandwidth", "fit"])
def test_nothing_is_measured_with_a_function_that_is_wrong_or_not_written(solved: Path, function: str) -> None:
    text = solved.read_text("utf-8")
    for body in ("raise NotImplementedError", "return 0.0"):
        solved.write_text(text.replace(f"def {function}(", f"def {function}(*arguments):\n    {body}\n\ndef _old("))
        events = list(judge(LESSON, solved, SAY))
        assert [one for one in events if isinstance(one, Finding)]
        assert not [one for one in events if isinstance(one, Shown)]


def test_what_goes_wrong_is_a_sentence(solved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = solved.read_text("utf-8")
    solved.write_text(text + "\ndef fit(points):\n    return None\n", "utf-8")
    (failed,) = measure(solved)
    assert "TypeError" in SAY.say(failed.sentence)
    solved.write_text(text, "utf-8")

    pass_lesson_5(solved.parent, "def all_reduce(rank, size):\n    raise KeyError('chunk')\n    yield\n")
    message, failed = measure(solved)
    assert ids([message, failed]) == ["measured.message", "measured.failed"]
    assert "chunk" in SAY.say(failed.sentence)

    monkeypatch.setattr(measured, "SECONDS", 0.01)
    (late,) = measure(solved)
    assert ids([late]) == ["measured.late"]


@pytest.mark.parametrize(
    ("ratios", "alpha", "ranks", "cores", "sentences"),
    [
        ((0.6, 1.9), 1e-5, 4, 2, []),
        ((0.4, 1.0), 1e-5, 4, 2, ["measured.cpu_is_the_wire"]),
        ((0.4, 1.0), 1e-5, 4, 8, ["measured.left_out"]),
        ((1.0, 2.1), 1e-5, 4, 2, ["measured.too_high"]),
        ((0.1, 9.0), 1e-5, 2, 2, ["measured.left_out", "measured.too_high"]),
        ((0.1, 1.0), -1e-5, 4, 2, []),
        ((-1.0, 1.0), 1e-5, 4, 2, []),
    ],
)
def test_a_prediction_that_is_far_off_has_a_reason(
    ratios: tuple[float, ...], alpha: float, ranks: int, cores: int, sentences: list[str]
) -> None:
    rows = [Row(1 << 20, ratio, 1.0, 1.0, 1.0, 1.0) for ratio in ratios]
    assert [said.id for said in measured._why_far(rows, alpha, ranks, cores)] == sentences


def test_a_fit_below_zero_is_explained() -> None:
    message = measured._message(((1, 1.0), (2, 3.0)), -1.0, 2.0, SAY)
    assert message.details == (Said("measured.below_zero"),)
    assert "-1 s" in SAY.say(message.sentence)
    assert "which is -." in SAY.say(measured._message(((1, 2.0), (2, 1.0)), 3.0, -1.0, SAY).sentence)


def judging(number: int, path: Path, language: str, broken: bool, ranks: tuple[int, ...]) -> Iterator[object]:
    yield Passed(Said("check.ran"))
    yield Shown(Said("measured.late", {"seconds": 3}), ("a  b", "1  2"), (Said("measured.below_zero"),), {"ranks": 2})


def test_check_prints_it_and_has_its_numbers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workspace = Workspace(str(folder), "en")
    workspace.open()
    workspace.file(LESSON).write_text("", "utf-8")
    verdict = check(workspace, LESSON, judging=judging)  # type: ignore[arg-type]
    assert (verdict.good, verdict.recorded) == (True, True)
    printed = capsys.readouterr().out
    assert "\n      The timing did not" in printed
    assert "\n      a  b\n      1  2\n" in printed
    assert "\n      No message costs less" in printed
    (found,) = json.loads(json.dumps(as_dict(verdict, workspace)))["measured"]
    assert (found["id"], found["ranks"], found["details"][0]["id"]) == ("measured.late", 2, "measured.below_zero")


def test_its_sentences_are_said_and_are_there_in_every_language() -> None:
    problems = [*mentions.problems(), *parity.problems("zh")]
    assert [problem for problem in problems if "measured" in problem] == []
