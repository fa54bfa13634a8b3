"""What is next: one command for every state that a learner can be in."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lessons.__main__ import main
from lessons.commands.check import advise, check
from lessons.commands.resume import after
from lessons.manifest import COURSE, lesson_numbered
from lessons.said import Finding, Passed, Said
from lessons.workspace import State, Workspace, digest

LAST = COURSE[-1].number
TWINS = tuple(lesson.number for lesson in COURSE if lesson.twin)
NOT_DONE = tuple(lesson.number for lesson in COURSE[1:])


def twin_from(number):
    """The lesson whose twin is offered where all else is done: of itself, or the next that has one, or the first."""
    return next((one for one in TWINS if one >= number), TWINS[0])


@pytest.fixture
def type_(tmp_path, monkeypatch, capsys):
    """``type_("check", "4", status=1)``: what a command prints, in a folder of its own, in English."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setattr(sys, "stdin", io.StringIO())

    def type_(*words, status=0):
        found = main(list(words))
        said = capsys.readouterr()
        assert found == status, said
        return said.out + said.err

    return type_


def arrange(current=0, tour=True, twins=False, quizzes=False, **states):
    """A folder in which lessons are as ``passed=[1, 2]`` … say; those that are not named are open."""
    workspace = Workspace("my_lessons")
    workspace.open()
    with workspace.progress.change():
        workspace.progress.current = lesson_numbered(current).name
        if tour:
            workspace.progress.lesson("tour")["passed"] = {"when": "today"}
        for state, numbers in states.items():
            for number in numbers:
                lesson, record = lesson_numbered(number), workspace.progress.lesson(lesson_numbered(number).name)
                record.pop("passed", None)
                record["state"] = "passed" if state == "changed" else state
                if state in ("started", "passed", "changed"):
                    workspace.file(lesson).write_text("mine = 1\n")
                if state in ("passed", "changed"):
                    record["passed"] = {"sha256": digest(workspace.file(lesson)), "when": "today"}
                if state == "changed":
                    workspace.file(lesson).write_text("mine = 2\n")
        for lesson in COURSE[1:]:
            if quizzes:
                workspace.progress.lesson(lesson.name)["quiz"] = {"right": 1, "of": 4, "when": "today"}
            if twins and lesson.twin:
                workspace.file(lesson, broken=True).write_text("mine = 1\n")
                mended = {"sha256": digest(workspace.file(lesson, broken=True)), "when": "today"}
                workspace.progress.lesson(lesson.name, broken=True)["passed"] = mended
    return Workspace("my_lessons")


STATES = [
    # the lesson in hand, the folder → the command
    (0, {"tour": False}, "start 0"),
    (0, {}, "start 1"),
    (0, {"current": 4, "started": [4]}, "check 4"),
    (1, {"current": 1}, "start 1"),
    (1, {"current": 1, "started": [1]}, "check 1"),
    (1, {"current": 1, "passed": [1]}, "start 2"),
    (1, {"current": 1, "passed": [1], "started": [2]}, "goto 2"),
    (1, {"current": 1, "passed": [1], "skipped": [2, 3]}, "start 4"),
    (1, {"current": 1, "changed": [1]}, "check 1"),
    (1, {"current": 1, "changed": [1, 2]}, "check all"),
    (1, {"current": 1, "passed": [1], "changed": [2]}, "check 2"),
    (1, {"current": 1, "passed": [1], "changed": [2, 3]}, "check all"),
    (2, {"current": 2, "skipped": [2]}, "start 2"),  # who goes to it wants to do it
    (3, {"current": 4}, "start 3"),  # reads another lesson than the current one
    (3, {"current": 4, "started": [3, 4]}, "check 3"),
    (3, {"current": 4, "passed": [3]}, "start 4"),
    (3, {"current": 4, "passed": [3], "started": [4]}, "check 4"),
    (3, {"current": 5, "passed": [3], "started": [4, 5]}, "check 5"),
    (3, {"current": 4, "passed": [3], "changed": [4]}, "check 4"),
    (3, {"current": 4, "passed": [3, 4]}, "start 5"),
    (3, {"current": 4, "skipped": [3], "started": [4]}, "check 4"),
    (LAST, {"current": LAST, "passed": [LAST]}, "start 1"),
    (LAST, {"current": LAST, "skipped": [2], "passed": [number for number in NOT_DONE if number != 2]}, "start 2"),
    (1, {"current": 1, "skipped": NOT_DONE}, "start 1"),
    (LAST, {"current": 1, "skipped": NOT_DONE}, "start 1"),
    (3, {"current": LAST, "passed": NOT_DONE}, "start 3 --broken"),
    (6, {"current": LAST, "passed": NOT_DONE}, f"start {twin_from(6)} --broken"),
    (LAST, {"current": LAST, "passed": NOT_DONE, "twins": True}, f"quiz {LAST}"),
    (0, {"current": LAST, "passed": NOT_DONE, "twins": True}, "quiz 1"),
    (TWINS[-1], {"current": LAST, "passed": NOT_DONE, "quizzes": True}, f"start {TWINS[-1]} --broken"),
    (LAST, {"current": LAST, "passed": NOT_DONE, "quizzes": True}, f"start {twin_from(LAST)} --broken"),
    (LAST, {"current": LAST, "passed": NOT_DONE, "twins": True, "quizzes": True}, None),
]


@pytest.mark.parametrize(("lesson", "folder", "command"), STATES)
def test_every_state_has_one_next_command(type_, lesson, folder, command):
    found = after(arrange(**folder), lesson_numbered(lesson))
    assert (found and " ".join(map(str, found[1]))) == command


def commands(text):
    """Those that are suggested, without what they are for."""
    return [line.strip().split("  ")[0] for line in text.splitlines() if line.startswith("  python -m ")]


@pytest.mark.parametrize("words", [(), ("show", "3"), ("open", "3"), ("goto", "3")])
@pytest.mark.parametrize("state", ["open", "started", "passed", "changed", "skipped"])
def test_commands_end_with_the_same_command(type_, words, state):
    arrange(current=4, **{"started": [4], state: [3, 4] if state == "started" else [3]})
    said = type_(*words)
    workspace = Workspace()
    lesson = COURSE[3] if words else COURSE[4]
    assert commands(said) == [workspace.command(*after(workspace, lesson)[1])]
    assert said.rstrip().splitlines()[-1].startswith("  python -m lessons ")


def test_what_is_said_when_nothing_is_left(type_):
    arrange(current=LAST, passed=NOT_DONE, twins=True, quizzes=True)
    for words in ((), ("show", "3"), ("goto", "3"), ("check", "all")):
        said = type_(*words)
        assert "whole course" in said
        assert "python -m collectives --help" in said
        assert commands(said) == []
    Workspace().file(lesson_numbered(LAST)).unlink()
    arrange(current=LAST, passed=NOT_DONE[:-1], skipped=[LAST])
    assert "whole course" not in type_()


def test_skipping_everything_comes_back_to_the_first(type_):
    arrange(current=1)
    for number in NOT_DONE[1:]:
        assert commands(type_("skip")) == [f"python -m lessons start {number}"]
    said = type_("skip")
    assert "You are at lesson 1" in said
    assert commands(said) == ["python -m lessons start 1"]
    assert "left out" in said.splitlines()[-1]


def test_the_tour_is_a_place_too(type_):
    arrange(current=4, passed=[1, 2, 3], started=[4])
    said = type_("goto", "0")
    assert "You are at lesson 0, A tour. It is done." in said
    assert commands(said) == ["python -m lessons goto 4"]


def test_check_all_ends_with_one_command_and_is_in_the_help(type_, capsys):
    arrange(current=2, changed=[1, 2])
    said = type_("check", "all", status=1)
    assert commands(said) == ["python -m lessons check 1"]
    arrange(current=2, passed=[1, 2])
    assert commands(type_("check", "all")) == ["python -m lessons start 3"]
    assert "start 1 --broken" in type_("check", "all", "--broken")
    with pytest.raises(SystemExit):
        type_("--help")
    assert "python -m lessons check all" in capsys.readouterr().out


def good(number, path, language, broken, ranks):
    yield Passed(Said("check.ran"), "f", (2, 3))


def bad(number, path, language, broken, ranks):
    yield Finding(Said("file.missing", {"function": "f", "file": path.name}), "f", 3)


def test_a_check_suggests_nothing_twice_and_the_way_on_last(type_, capsys):
    workspace = arrange(current=LAST, passed=NOT_DONE[:-1], started=[LAST])
    advise(workspace, check(workspace, lesson_numbered(LAST), judging=good))
    found = commands(capsys.readouterr().out)
    assert found[-1] == f"python -m lessons start {twin_from(LAST)} --broken"
    assert len(set(found)) == len(found)
    workspace = arrange(current=LAST, passed=NOT_DONE, twins=True, quizzes=True)
    advise(workspace, check(workspace, lesson_numbered(LAST), judging=good))
    assert "whole course" in capsys.readouterr().out


def test_a_check_offers_hints_as_long_as_there_are_some(type_, capsys):
    workspace = arrange(current=4, started=[4])
    for hints, first in ((0, "hint 4"), (2, "hint 4"), (3, "solution 4")):
        with workspace.progress.change():
            workspace.progress.lesson(COURSE[4].name)["hints"] = hints
        advise(workspace, check(workspace, COURSE[4], judging=bad))
        said = commands(capsys.readouterr().out)
        assert said == [f"python -m lessons {first}", "python -m lessons check 4"]


def test_a_watch_does_not_ask_for_what_it_does_itself(type_, capsys):
    workspace = arrange(current=4, started=[4])
    advise(workspace, check(workspace, COURSE[4], judging=bad), again=False)
    assert commands(capsys.readouterr().out) == ["python -m lessons hint 4"]
    advise(workspace, check(workspace, COURSE[4], broken=True, judging=bad), again=False)
    assert commands(capsys.readouterr().out) == []


def test_a_check_whose_file_changed_does_not_speak_of_ranks(type_, capsys):
    def slowly(number, path, *rest):
        path.write_text("other = 1\n")
        yield Passed(Said("check.ran"))

    workspace = arrange(current=4, started=[4])
    advise(workspace, check(workspace, COURSE[4], judging=slowly))
    assert "numbers of ranks" not in capsys.readouterr().out


# ---------------------------------------------------------------- a sentence that helps


def test_a_lesson_that_builds_on_others(type_):
    arrange(current=5, started=[5])
    workspace = Workspace()
    workspace.file(COURSE[5]).write_text("def (\n")
    assert "not passed: 4" in type_("check", "5", status=1)
    arrange(current=5, passed=[4], started=[5])
    workspace.file(COURSE[5]).write_text("def (\n")
    assert "not passed" not in type_("check", "5", status=1)


def test_solution_says_what_is_next_beside_the_code(type_, capsys):
    arrange(current=4)
    for _ in range(2):
        main(["solution", "4"])
        said = capsys.readouterr()
        compile(said.out, "solution", "exec")
        assert said.err.startswith("# ")
        assert said.err.count("\n") == 1
        assert "python -m lessons start 4" in said.err
    arrange(current=4, started=[4])
    main(["solution", "4"])
    assert "python -m lessons check 4" in capsys.readouterr().err


def test_hints_reset_and_pages_say_what_can_be_done(type_):
    arrange(current=4)
    for _ in range(4):
        said = type_("hint", "4")
    assert "there is no other" in said
    assert commands(said) == ["python -m lessons hint 4 --grade 1", "python -m lessons solution 4"]
    assert "nothing is to be put back: python -m lessons start 4" in type_("reset", status=2)
    said = type_("open", "4")
    (address,) = re.findall(r"file://\S+", said)
    assert Path(address.removeprefix("file://")).is_file()


# ---------------------------------------------------------------- leaving a quiz


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize("key", [b"\x04", b"\x03"], ids=["Ctrl-D", "Ctrl-C"])
@pytest.mark.parametrize(
    ("answers", "last"), [([b"1.5\n"], "1 of 3 right; the rest is left out."), ([], "asks again.")]
)
def test_leaving_a_quiz_is_one_line_and_keeps_what_was_answered(type_, key, answers, last):
    arrange(current=1, passed=[2])
    ours, theirs = pty.openpty()
    runner = subprocess.Popen(
        [sys.executable, "-m", "lessons", "quiz", "0"],
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        preexec_fn=lambda: __import__("fcntl").ioctl(0, __import__("termios").TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(theirs)
    shown, keys = "", [*answers, key]
    try:
        while more := os.read(ours, 1 << 16):
            shown += more.decode()
            if keys and re.search(r"\(Enter skips\)[^\n]*: $", shown):
                time.sleep(0.1)
                os.write(ours, keys.pop(0))
    except OSError:  # so ends a pseudo-terminal
        pass
    assert runner.wait(20) == 0
    assert "Traceback" not in shown
    *_, prompt, line = shown.rstrip().splitlines()
    assert "(Enter skips)" in prompt
    assert line.endswith(last)
    workspace = Workspace()
    assert workspace.state(COURSE[2]) is State.PASSED
    assert workspace.progress.lesson("tour").get("quiz", {}).get("right") == (1 if answers else None)
