"""Lesson 0: it works at once, in a pipe and in any language, and goes on when a part cannot work."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lessons import tour
from lessons.catalogue import Catalogue
from lessons.manifest import COURSE
from lessons.reading import Reading
from lessons.workspace import State, Workspace

TABLE = Catalogue().table("tour")


def test_a_newcomers_first_command(tmp_path):
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "NO_COLOR": "1"}
    began = time.monotonic()
    command = [sys.executable, "-m", "lessons"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as runner:
        first = runner.stdout.readline()
        first_after = time.monotonic() - began
        text = first + runner.stdout.read()
    assert runner.returncode == 0
    assert first.startswith("Welcome")
    assert first_after < 3
    assert time.monotonic() - began < 60
    for number, part in enumerate(tour.PARTS, 1):
        assert f"{number} of {len(tour.PARTS)}  {TABLE[f'{part.__name__}.title']}" in text
    assert "does not work here" not in text
    assert "1111 2222 3333 4444" in text
    assert "0 → 1 → 2 → 3 → 0" in text
    assert len(re.findall(r"^   4 KiB .*\d\.\d\d$", text, re.MULTILINE)) == 1
    assert len(re.findall(r"^   4 MiB .*\d\.\d\d$", text, re.MULTILINE)) == 1
    assert text.rstrip().splitlines()[-2].startswith("  python -m lessons start 1")
    assert all(len(line) <= 80 or line.startswith("  python -m") for line in text.splitlines())
    assert "<svg" in (tmp_path / "my_lessons" / tour.PAGE).read_text()
    assert "not part of" not in text
    again = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert "Welcome" not in again.stdout
    assert "start 1" in again.stdout
    written = json.loads((tmp_path / "my_lessons" / "progress.json").read_text())
    assert written["lessons"]["tour"]["state"] == "passed"


def test_the_commands_that_it_names_work(tmp_path, capsys, monkeypatch):
    """All but the two that the tour itself has just done, and its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tour, "PARTS", (tour.steps, tour.proof, tour.predict, tour.animation))
    tour.take(Workspace())
    commands = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("  python -m")]
    commands = [words[1:] for words in commands if words[2] != "lessons"]
    assert len(commands) == 4
    for words in commands:
        ran = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "ring.html").exists()


def test_a_part_that_cannot_work_says_so_and_the_next_one_follows(tmp_path, capsys, monkeypatch):
    def run(tour):
        raise RuntimeError("no loopback\nwhatever")

    monkeypatch.setattr(tour, "PARTS", (run, tour.proof))
    workspace = Workspace(str(tmp_path / "my_lessons"))
    assert tour.take(workspace) == 0
    said = capsys.readouterr().out
    assert "This part does not work here: no loopback." in said
    assert "2 of 2  Proved" in said
    assert workspace.state(COURSE[0]) is State.PASSED


def test_a_folder_that_cannot_be_written_to_does_not_stop_it(tmp_path, capsys, monkeypatch):
    (tmp_path / "my_lessons").write_text("a file in the way")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tour, "PARTS", (tour.proof, tour.animation))
    assert tour.take(Workspace()) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "cannot be written to" in said
    assert "1 of 2 Proved" in said
    assert "This part does not work here" in said


def test_who_leaves_half_way_is_not_taken_round_again(tmp_path, monkeypatch):
    def run(tour):
        raise KeyboardInterrupt

    monkeypatch.setattr(tour, "PARTS", (run,))
    workspace = Workspace(str(tmp_path / "my_lessons"))
    with pytest.raises(KeyboardInterrupt):
        tour.take(workspace)
    assert Workspace(str(tmp_path / "my_lessons")).progress.exists
    assert workspace.state(COURSE[0]) is State.STARTED


def test_every_sentence_has_its_fields_in_chinese_too(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(tour, "PARTS", (tour.steps, tour.proof, tour.predict, tour.animation))
    workspace = Workspace(str(tmp_path / "my_lessons"), "zh")
    tour.take(workspace)
    assert "{" not in capsys.readouterr().out
    assert workspace.progress.language == "zh"


def test_the_numbers_of_lesson_0():
    reading = Reading(COURSE[0], Catalogue())
    assert reading.sections() == ["problem", "picture", "formula", "task", "real"]
    assert all("{" not in reading.text(section) for section in reading.sections())
    assert reading.prediction.answer == 1.5
    assert len(reading.questions) == COURSE[0].questions
    assert all(question.right in question.choices for question in reading.questions)
    assert Path(tour.PAGE).suffix == ".html"
