"""What lesson 31 measures: real ranks over gloo, whose times nobody can promise, in a fixed form."""

from __future__ import annotations

from pathlib import Path

import pytest

from lessons.answer import Answer, load_answer
from lessons.bounds import Bounds
from lessons.catalogue import Catalogue
from lessons.checks import beside
from lessons.checks.beside import Beside
from lessons.checks.references import REFERENCES
from lessons.manifest import lesson_numbered
from lessons.said import Said, Shown
from lessons.source import source_of

SAY = Catalogue()
LESSON = lesson_numbered(31)


@pytest.fixture
def solved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Answer:
    monkeypatch.setenv("LESSONS_FOLDER", str(tmp_path))
    path = tmp_path / "answer.py"
    answer = load_answer(path, source_of(LESSON, "solution", SAY))
    assert isinstance(answer, Answer)
    return answer


def test_a_ring_is_shown_beside_the_backend(solved: Answer) -> None:
    begins, shown = Beside(sizes=(1 << 10, 1 << 14), ranks=2).shown(solved, SAY)
    assert isinstance(begins, Said)
    assert isinstance(shown, Shown)
    assert isinstance(shown.sentence, Said)
    assert shown.sentence.id == "gpu_day.shown.library"
    assert shown.numbers["backend"] == "gloo"
    first = shown.numbers["lines"][0]
    assert set(first) == {"bytes", "ring", "native", "wire", "ratio", "null"}
    assert all(number > 0 for number in first.values())
    assert [line.split()[-1] for line in shown.lines[-2:]] == [
        REFERENCES["is_faster"].answer("native", line["ratio"], line["null"]) for line in shown.numbers["lines"]
    ]
    SAY.say(shown.sentence)


def test_whatever_goes_wrong_is_said(solved: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "_contest", None)
    *_, shown = Beside(ranks=2).shown(solved, SAY)
    assert isinstance(shown, Shown)
    assert isinstance(shown.sentence, Said)
    assert shown.sentence.id == "measured.failed"


def test_gpus_ask_for_more_room(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = Bounds()
    for gpus in (0, 1, 2):
        monkeypatch.setattr(Path, "glob", lambda self, pattern, gpus=gpus: iter([self] * gpus))
        assert (Beside().bounds(usual).memory > usual.memory) == (gpus > 1)


def test_channels_in_turn_are_near_the_librarys_walk() -> None:
    """The solution's clocks, within a tenth of the cost model, whose channels go as they are ready."""
    reference = REFERENCES["ring_on_nccl"]
    path = Path("solution.py")
    answer = load_answer(path, source_of(LESSON, "solution", SAY))
    assert isinstance(answer, Answer)
    for ranks in (2, 3, 8):
        for nbytes in (1 << 12, 1 << 20, 1 << 28):
            for channels in (1, 2):
                example = (ranks, nbytes, 2e-5, 1e-5, 1 / 2e11, 1 / 4e11, channels, False)
                assert answer.module.ring_on_nccl(*example) == pytest.approx(reference.answer(*example), rel=0.1)
