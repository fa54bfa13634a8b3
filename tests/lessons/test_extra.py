"""Functions that a lesson is passed without: they may be missing; once written, they must be right."""

from __future__ import annotations

from pathlib import Path

import pytest

from lessons.__main__ import main
from lessons.catalogue import Catalogue
from lessons.judge import judge
from lessons.manifest import lesson_numbered
from lessons.order import Event
from lessons.said import Finding, Passed, Said, Skipped
from lessons.workspace import State, Workspace

LESSON = lesson_numbered(12)
NEEDED, _, EXTRA = (
    (Path(__file__).parents[2] / "lessons" / "course" / LESSON.folder / "solution.py")
    .read_text()
    .partition("# {{course.extra}}")
)
UNWRITTEN = "\ndef matmul_time(m, n, k, peak, bandwidth):\n    raise NotImplementedError\n"


def judged(folder: Path, source: str) -> list[Event]:
    file = folder / "answer.py"
    file.write_text(source)
    return [event for event in judge(LESSON, file, Catalogue()) if not isinstance(event, Said)]


def findings(events: list[Event]) -> list[tuple[str, str]]:
    return [(one.function, one.sentence.id) for one in events if isinstance(one, Finding)]  # type: ignore[union-attr]


@pytest.mark.parametrize("extra", [UNWRITTEN, ""], ids=["unwritten", "deleted"])
def test_what_is_extra_may_be_missing_and_is_told_once_all_else_is_right(tmp_path: Path, extra: str) -> None:
    *passed, last = judged(tmp_path, NEEDED + extra)
    assert all(isinstance(one, Passed) for one in passed)
    assert isinstance(last, Skipped)
    assert (last.sentence.id, last.sentence.fields) == ("check.extra", {"functions": ["matmul_time"]})


def test_nothing_is_said_of_it_where_something_needed_is_missing(tmp_path: Path) -> None:
    events = judged(tmp_path, NEEDED.replace("return flops / seconds / (gpus * peak)", "raise NotImplementedError"))
    assert findings(events) == [("mfu", "file.todo")]
    assert not any(isinstance(one, Skipped) for one in events)


def test_once_written_it_must_be_right(tmp_path: Path) -> None:
    assert findings(judged(tmp_path, NEEDED + EXTRA)) == []
    assert findings(judged(tmp_path, NEEDED + EXTRA.replace("max(", "min("))) != []


def test_what_uses_it_unwritten_is_run_and_fails(tmp_path: Path) -> None:
    """It is not passed over as if something else had to be mended first: nothing else is wrong."""
    source = NEEDED.replace("return flops / seconds", "matmul_time(1, 1, 1, 1, 1)\n    return flops / seconds")
    ((function, _),) = findings(judged(tmp_path, source + UNWRITTEN))
    assert function == "mfu"


@pytest.mark.parametrize(
    ("source", "done"),
    [
        (NEEDED + EXTRA.replace("max(", "min("), True),
        (NEEDED.replace("flops / seconds", "flops * seconds") + EXTRA, False),
        (NEEDED.replace("flops / seconds", "flops * seconds") + EXTRA.replace("max(", "min("), False),
    ],
    ids=["extra wrong", "needed wrong", "both wrong"],
)
def test_something_extra_that_is_wrong_does_not_keep_the_lesson_from_being_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], source: str, done: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["start", "12", "--lang", "en"]) == 0
    Workspace().file(LESSON).write_text(source)
    capsys.readouterr()
    assert main(["check", "12"]) == 1
    assert ("counts as done" in capsys.readouterr().out) is done
    assert (Workspace().state(LESSON) is State.PASSED) is done
