"""The course keeps what it promises: every proof of ``selftest`` holds, and one that fails would be seen."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lessons.__main__ import main
from lessons.catalogue import Catalogue
from lessons.lesson import Lesson, Twin
from lessons.manifest import COURSE
from lessons.selftest import prove_all, prove_lesson
from lessons.source import source_of


@pytest.mark.timeout(900)
def test_the_course_keeps_what_it_promises(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lessons", "selftest", "--json", "-"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=880, check=False)
    found = json.loads(done.stdout)
    assert [proof for proof in found["proofs"] if not proof["good"]] == []
    assert done.returncode == 0
    looked_at = {(proof["lesson"], proof["what"]) for proof in found["proofs"]}
    for lesson in COURSE:
        wanted = {"numbers", "pictures"} | ({"stub", "solution"} if lesson.checks else set())
        wanted |= ({"needed"} if lesson.extra else set()) | ({"twin"} if lesson.twin else set())
        assert {what for number, what in looked_at if number == lesson.number} == wanted
    assert {(None, "sentences"), (None, "language")} <= looked_at


def test_lessons_are_proved_at_the_same_time_and_told_in_order() -> None:
    said: list[tuple[int, int]] = []
    rows = list(prove_all((COURSE[1], COURSE[0]), False, "en", 2, lambda done, all: said.append((done, all))))
    assert [(lesson.number, proof.what) for lesson, proof in rows if lesson] == [
        *((1, what) for what in ("stub", "solution", "needed", "twin", "numbers", "pictures")),
        *((0, what) for what in ("numbers", "pictures")),
    ]
    assert all(not proof.problems for _, proof in rows)
    assert (said[0], said[-1]) == ((0, 2), (2, 2))


@pytest.mark.parametrize("jobs", ["0", "many", "-1", "1000000"])
def test_a_number_of_jobs_that_makes_no_sense_is_refused(jobs: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["selftest", "0", "--jobs", jobs]) == 2
    assert f"--jobs {jobs}: write a number" in capsys.readouterr().err


def _failing(lesson: Lesson) -> set[str]:
    return {proof.what for proof in prove_lesson(lesson, Catalogue()) if proof.problems}


def test_a_stub_that_fails_for_another_reason_is_seen() -> None:
    assert _failing(replace(COURSE[7], twin=None, stub="file.syntax")) == {"stub"}


def test_a_lesson_that_is_not_passed_without_what_is_extra_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lesson 12, if ``mfu``, which is needed, stood among what is extra."""

    def moved(lesson: Lesson, name: str, say: Catalogue) -> str:
        heading = f"# {say('course.extra')}"
        return source_of(lesson, name, say).replace(heading, "").replace("def mfu(", f"{heading}\n\n\ndef mfu(")

    monkeypatch.setattr("lessons.selftest.source_of", moved)
    assert _failing(replace(COURSE[12], twin=None)) == {"needed"}


def test_a_planted_fault_under_another_name_is_seen() -> None:
    twin = COURSE[7].twin
    assert twin is not None
    assert _failing(replace(COURSE[7], checks=(), twin=Twin(("values.twice",), twin.checks))) == {"twin"}
