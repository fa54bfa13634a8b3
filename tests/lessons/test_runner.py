"""The commands of the course, as a learner types them."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from rich.cells import cell_len

from lessons import lines
from lessons.__main__ import COMMANDS, main
from lessons.bounds import Bounds
from lessons.catalogue import Catalogue, usual_language
from lessons.commands.check import advise, check
from lessons.guess import is_near
from lessons.manifest import COURSE
from lessons.said import Finding, Passed, Said
from lessons.workspace import State, Workspace

PACKAGE = Path(main.__code__.co_filename).parent
ON_ITS_WAY = [
    name for name, module in COMMANDS.items() if not (PACKAGE.parent / f"{module.replace('.', '/')}.py").exists()
]


@pytest.fixture
def type_(tmp_path, monkeypatch, capsys):
    """``type_("check", "4", status=1)``: what a command prints, in an empty folder, in English."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setattr(sys, "stdin", io.StringIO())

    def type_(*words, status=0):
        found = main(list(words))
        said = capsys.readouterr()
        text = said.out + said.err
        assert found == status, text
        return text

    Workspace("my_lessons").open()
    return type_


def progress(name=None):
    data = json.loads(Path("my_lessons/progress.json").read_text())
    return data if name is None else data["lessons"].get(name, {})


def passing(number, path, language, broken, ranks):
    """A judge that is content."""
    yield Said("check.loading", {"file": path.name})
    print("a word of the learner's")
    yield Passed(Said("check.ran"), "reduce_scatter", (2, 3))
    yield Passed(Said("check.steps", {"ranks": 4}), "reduce_scatter", (4,), "3", "3")


def finding(number, path, language, broken, ranks):
    """A judge that is not."""
    yield Finding(Said("file.missing", {"function": "f", "file": path.name}), "f", 3, ("a → b",), ("Traceback\n  x",))


# ---------------------------------------------------------------- where one is


def test_resume_says_where_one_is_and_one_command(type_):
    def command(text):
        (line,) = [line for line in text.splitlines() if line.startswith("  python -m lessons")]
        return line.split("  ")[1]

    assert command(type_("goto", "4")) == "python -m lessons start 4"
    assert "You are at lesson 4" in type_()
    type_("start")
    said = type_()
    assert command(said) == "python -m lessons check 4"
    assert "my_lessons/04_ring_reduce_scatter.py" in said
    workspace = Workspace()
    with workspace.progress.change():
        record = workspace.progress.lesson("ring_reduce_scatter")
        record["passed"] = {"sha256": "0" * 64, "when": "today"}
    said = type_()
    assert "changed since" in said
    assert command(said) == "python -m lessons check 4"
    assert command(type_("skip")) == "python -m lessons start 5"
    assert type_("skip", "6").startswith("Lesson 6 is left out.")
    assert "You are at lesson 5" in type_()


def test_resume_when_all_is_done(type_):
    workspace = Workspace()
    with workspace.progress.change():
        for lesson in COURSE:
            workspace.progress.lesson(lesson.name)["passed"] = {"when": "today"}
    assert f"{len(COURSE) - 1} of {len(COURSE) - 1}" in type_()
    assert len(re.findall(r"\d\d..  done ", type_("list"))) == len(COURSE)


def test_list_is_a_line_a_lesson_aligned_in_any_language(type_):
    for language in ("en", "zh"):
        *rows, blank, core = type_("--lang", language, "list").splitlines()
        assert (blank, core[0]) == ("", "★")
        assert [row[:2] for row in rows] == [f"{lesson.number:02}" for lesson in COURSE]
        ends = {cell_len(row[: re.search(r"\d+ *(?=min|分)", row).end()]) for row in rows}
        assert len(ends) == 1
    listed = json.loads(type_("list", "--json", "-"))["lessons"]
    assert [row["state"] for row in listed] == ["open"] * len(COURSE)
    type_("list", "--json", "list.json")
    assert json.loads(Path("list.json").read_text())["lessons"] == listed
    assert "does not exist" in type_("list", "--json", "no/list.json", status=2)


def test_list_is_quick_and_needs_no_torch():
    code = "import sys, lessons.__main__ as m; m.main(['list']); "
    code += "assert not {'torch', 'numpy', 'networkx'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ON_ITS_WAY])
def test_every_command_has_help(name):
    ran = subprocess.run([sys.executable, "-m", "lessons", name, "--help"], capture_output=True, text=True)
    assert ran.returncode == 0
    assert Catalogue()(f"runner.help.{name}") in ran.stdout.replace("\n", " ")


def test_the_language_is_remembered(type_):
    type_("list", "--lang", "zh")
    assert progress()["language"] == "zh"
    assert Workspace().say.language == "zh"
    type_("--lang=en", "list")
    assert Workspace().say.language == "en"
    assert usual_language({"LANG": "zh_CN.UTF-8"}) == "zh"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("chekc",), "check"),
        (("check", "99"), "no lesson 99"),
        (("goto", "ring"), "several names: 4 ring_reduce_scatter, 5 ring_all_reduce"),
        (("check", "0"), "nothing to check"),
        (("check", "3"), "python -m lessons start 3"),
        (("watch", "3"), "python -m lessons start 3"),
        (("reset", "3"), "python -m lessons start 3"),
        (("reset", "0"), "start 0"),
        (("check", "--ranks", "1"), "2,3 or 2-5"),
        (("check", "--ranks", "2-99999999999"), "2,3 or 2-5"),
        (("check", "--ranks", "two"), "2,3 or 2-5"),
        (("check", "--json", "no/such.json"), "does not exist"),
        (("hint", "0"), "no hints"),
        (("solution", "0"), "nothing to solve"),
        (("start", "0", "--broken"), "no broken twin"),
        (("start", "4", "--open"), "open 4"),
        (("quiz", "4", "--answers", "1"), "questions"),
        (("quiz", "0", "--answers", "many,a,b"), "many is no number"),
        (("quiz", "0", "--answers", "1,z,b"), "z is no answer"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(type_, words, said):
    text = type_(*words, status=2)
    assert text.startswith("error: ")
    assert text.count("\n") == 1
    assert said in text


def test_the_course_itself_is_not_written_to(type_, monkeypatch):
    monkeypatch.chdir(PACKAGE)
    for words in (
        ("--folder", "my_lessons", "start", "1"),
        ("--folder", ".", "goto", "1"),
        ("--folder", "course", "start", "1"),
    ):
        assert "inside of the course itself" in type_(*words, status=2)
    assert not (PACKAGE / "my_lessons").exists()


def test_another_folder(type_):
    said = type_("--folder", "a folder", "start", "4")
    assert Path("a folder/04_ring_reduce_scatter.py").exists()
    assert "python -m lessons check 4 --folder 'a folder'" in said
    assert not Path("my_lessons/04_ring_reduce_scatter.py").exists()
    assert "04★→  started" in type_("list", "--folder", "a folder")


# ---------------------------------------------------------------- files


def test_start_says_what_is_to_write_and_what_is_extra(type_):
    """What the stub of lesson 8 has already, train_together, is neither."""
    said = " ".join(type_("start", "8").split())
    assert "To write: rows_of, same_start, average_gradients." in said
    assert "the lesson is passed without: dp_bytes, ddp_bytes." in said


def test_start_copies_once_and_keeps_what_is_there(type_):
    said = type_("start", "4")
    file = Path("my_lessons/04_ring_reduce_scatter.py")
    text = file.read_text()
    assert "{{" not in text
    compile(text, "stub", "exec")
    assert "reduce_scatter_bare, reduce_scatter" in said
    assert "not passed: 2, 3" in said
    assert progress()["current"] == "ring_reduce_scatter"
    file.write_text("mine = 1\n")
    assert "is there already" in type_("start", "4")
    assert file.read_text() == "mine = 1\n"


def test_reset_keeps_every_version(type_):
    type_("start", "4")
    file = Path("my_lessons/04_ring_reduce_scatter.py")
    stub = file.read_text()
    for number in (1, 2):
        file.write_text(f"mine = {number}\n")
        assert f"04_ring_reduce_scatter.backup-{number}.py" in type_("reset", "4")
        assert file.read_text() == stub
        assert file.with_name(f"04_ring_reduce_scatter.backup-{number}.py").read_text() == f"mine = {number}\n"


@pytest.mark.parametrize("lesson", COURSE[1:], ids=lambda lesson: lesson.name)
def test_stubs_solutions_and_twins_are_python_in_every_language(type_, lesson):
    for language in ("en", "zh"):
        code = type_("solution", str(lesson.number), "--lang", language)
        assert "{{" not in code
        names = {node.split("(")[0] for node in re.findall(r"^def (.+)", code, re.MULTILINE)}
        assert set(lesson.functions) <= names
        compile(code, "solution", "exec")
        type_("reset" if language == "zh" else "start", str(lesson.number))
        compile(Workspace().file(lesson).read_text(), "stub", "exec")
        if lesson.twin:
            type_("reset" if language == "zh" else "start", str(lesson.number), "--broken")
            compile(Workspace().file(lesson, broken=True).read_text(), "broken", "exec")
    assert progress(lesson.name)["solution_seen"] is True


def test_hints_come_one_by_one(type_):
    texts = [type_("hint", "4") for _ in range(4)]
    assert [text.split(" for")[0] for text in texts[:3]] == [f"Hint {n} of 3" for n in (1, 2, 3)]
    assert "there is no other" in texts[3]
    assert "python -m lessons solution 4" in texts[3]
    assert type_("hint", "4", "--grade", "2") == texts[1]
    assert progress("ring_reduce_scatter")["hints"] == 3


# ---------------------------------------------------------------- check


def test_a_pass_is_recorded_and_goes_nowhere_by_itself(type_, capsys):
    type_("start", "4")
    workspace = Workspace()
    verdict = check(workspace, COURSE[4], judging=passing)
    advise(workspace, verdict)
    said = capsys.readouterr().out
    assert "  ok  reduce_scatter: run on real processes" in said
    assert "on 4 ranks: 3 (at most 3)" in said
    assert "  | a word of the learner's" in said
    assert said.rstrip().splitlines()[-1].startswith("  python -m lessons start 5")
    assert "python -m lessons solution 4" in said
    assert progress()["current"] == "ring_reduce_scatter"
    assert progress("ring_reduce_scatter")["state"] == "passed"
    assert Workspace().state(COURSE[4]) is State.PASSED
    assert "passed, unchanged" in type_("check", "all")
    workspace.file(COURSE[4]).write_text("def (")
    assert "changed" in type_("list")


def test_a_pass_with_other_ranks_or_of_a_file_that_changed_does_not_count(type_, capsys):
    type_("start", "4")
    workspace = Workspace()
    verdict = check(workspace, COURSE[4], ranks=(2,), judging=passing)
    advise(workspace, verdict)
    assert "without --ranks" in capsys.readouterr().out
    assert (verdict.good, verdict.recorded) == (True, False)

    def slowly(number, path, *rest):
        path.write_text("other = 1\n")
        yield Passed(Said("check.ran"))

    assert not check(workspace, COURSE[4], judging=slowly).recorded
    assert workspace.state(COURSE[4]) is State.STARTED


def test_a_finding_is_shown_with_its_picture_and_details(type_, capsys):
    type_("start", "4")
    verdict = check(Workspace(), COURSE[4], judging=finding)
    said = capsys.readouterr().out
    assert not verdict.good
    assert "  NO  There is no function f" in said
    assert "\n      a → b\n      Traceback\n        x\n" in said


def test_a_judge_that_says_nothing_is_no_pass(type_, capsys):
    type_("start", "4")

    def nothing(*arguments):
        yield Said("check.loading", {"file": "a"})

    assert not check(Workspace(), COURSE[4], judging=nothing).good
    assert "  NO  The process ended without a word" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("while True: pass", "line 1 of 04_ring_reduce_scatter.py"),
        ("import os; os._exit(3)", "exit code 3"),
        ("while True: print('x' * 1000)", "more bytes, left out"),
        ("import sys; print('\\x1b[2J\\x1b]0;title\\x07words'); sys.stdout.close()", "  | words\n"),
    ],
)
def test_bad_files_end_in_a_sentence_and_keep_progress(type_, capsys, body, said):
    type_("start", "4")
    before = progress()
    Path("my_lessons/04_ring_reduce_scatter.py").write_text(body + "\n")

    def load(number, path, *rest):
        yield Said("check.loading", {"file": path.name})
        exec(compile(path.read_text(), str(path), "exec"), {})

    verdict = check(Workspace(), COURSE[4], judging=load, bounds=Bounds(quiet=1))
    shown = capsys.readouterr().out
    assert not verdict.good
    assert said in shown
    assert "\x1b" not in shown
    assert len(shown) < 60_000
    assert progress() == before


def test_the_real_judge_on_a_file_that_does_not_parse(type_):
    type_("start", "4")
    Path("my_lessons/04_ring_reduce_scatter.py").write_text("def reduce_scatter(:\n")
    said = type_("check", "4", "--json", "found.json", status=1)
    assert "  NO  04_ring_reduce_scatter.py is no Python" in said
    found = json.loads(Path("found.json").read_text())
    assert (found["good"], found["ending"], found["findings"][0]["id"]) == (False, "finished", "file.syntax")
    alone = json.loads(type_("check", "4", "--json", "-", status=1))
    assert {**alone, "seconds": 0} == {**found, "seconds": 0}
    assert "1 wrong" in type_("check", "all", status=1)


def test_check_all_with_nothing_begun(type_):
    assert "You have not begun a lesson yet" in type_("check", "all")


def test_ctrl_c_ends_a_check_quietly(type_):
    type_("start", "4")
    before = progress()
    Path("my_lessons/04_ring_reduce_scatter.py").write_text(
        "import os, time\nopen('pid', 'w').write(str(os.getpid()) + '.')\ntime.sleep(100)\n"
    )
    for command, status in (("check", 130), ("watch", 0)):
        Path("my_lessons/pid").unlink(missing_ok=True)
        runner = subprocess.Popen([sys.executable, "-m", "lessons", command, "4"], stderr=subprocess.PIPE, text=True)
        pid = Path("my_lessons/pid")
        while not pid.exists() or not pid.read_text().endswith("."):
            assert runner.poll() is None
            time.sleep(0.05)
        runner.send_signal(signal.SIGINT)
        assert runner.wait(20) == status
        assert runner.stderr.read() == ""
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid.read_text()[:-1]), 0)
    assert progress() == before


def test_watch_checks_again_when_the_file_is_replaced(type_):
    type_("start", "4")
    file = Path("my_lessons/04_ring_reduce_scatter.py")
    file.write_text("def one(:\n")
    runner = subprocess.Popen([sys.executable, "-u", "-m", "lessons", "watch"], stdout=subprocess.PIPE, text=True)
    said: list[str] = []
    reader = threading.Thread(target=lambda: said.extend(iter(runner.stdout.readline, "")), daemon=True)
    reader.start()

    def wait(words):
        until = time.monotonic() + 60
        while words not in " ".join("".join(said).split()):
            assert time.monotonic() < until, said
            assert runner.poll() is None
            time.sleep(0.05)

    try:
        wait("Waiting for")
        wait("def one")
        file.unlink()
        time.sleep(1.2)
        Path("my_lessons/new").write_text("def two(:\n")
        Path("my_lessons/new").replace(file)
        wait("def two")
        runner.send_signal(signal.SIGINT)
        assert runner.wait(20) == 0
    finally:
        runner.kill()
        runner.wait()
    assert "1 wrong" in type_("watch", "--once", status=1)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_on_a_terminal_it_says_at_once_what_it_is_at(type_):
    type_("start", "4")
    Path("my_lessons/04_ring_reduce_scatter.py").write_text("def one(:\n")
    ours, theirs = pty.openpty()
    runner = subprocess.Popen([sys.executable, "-m", "lessons", "check"], stdout=theirs, stdin=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            more = os.read(ours, 1 << 16)
        except OSError:
            break
        if not more:
            break
        shown += more
    assert runner.wait(20) == 1
    text = shown.decode()
    assert "checking…" in text
    assert "\r\x1b[K" in text


# ---------------------------------------------------------------- quiz


def test_a_quiz_in_a_pipe_asks_nothing(type_):
    said = type_("quiz", "0")
    assert "Question 3 of 3" in said
    assert "python -m lessons quiz 0 --answers 1.5,a,a" in said
    assert "quiz" not in progress("tour")


def test_a_quiz_with_answers_is_scored(type_):
    assert "2 of 3 right" in type_("quiz", "0", "--answers", "1.5GiB,B,a")
    assert progress("tour")["quiz"]["right"] == 2
    assert "1 of 3 right" in type_("quiz", "0", "--answers", "3/2,-,-")
    for first in ("-", "-112"):
        assert "1 of 3 right" in type_("quiz", "0", "--answers", f"{first},B,a")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_quiz_on_a_terminal(type_):
    ours, theirs = pty.openpty()
    runner = subprocess.Popen([sys.executable, "-m", "lessons", "quiz", "0"], stdout=theirs, stdin=theirs)
    os.close(theirs)
    os.write(ours, b"what\n1.5\nb\n\n")
    shown = b""
    try:
        while more := os.read(ours, 1 << 16):
            shown += more
    except OSError:
        pass
    assert runner.wait(20) == 0
    text = shown.decode()
    assert "what is no number" in text
    assert "2 of 3 right" in text
    assert progress("tour")["quiz"]["of"] == 3


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_quiz_that_is_broken_off_keeps_earlier_answers(type_):
    type_("quiz", "0", "--answers", "1.5GiB,b,a")
    before = progress("tour")["quiz"]
    ours, theirs = pty.openpty()
    runner = subprocess.Popen([sys.executable, "-m", "lessons", "quiz", "0"], stdout=theirs, stdin=theirs)
    os.close(theirs)
    os.write(ours, b"7\n\x04")  # a wrong number, then the end of the input
    with contextlib.suppress(OSError):
        while os.read(ours, 1 << 16):
            pass
    assert runner.wait(20) == 0
    quiz = progress("tour")["quiz"]
    assert quiz["right"] == before["right"] - 1
    assert [one["answer"] for one in quiz["answers"].values()] == ["7", "b", "a"]


@pytest.mark.parametrize(
    ("text", "unit", "answer", "right"),
    [
        ("0.75", "", 0.75, True),
        ("75%", "", 0.75, True),
        ("75 %", "%", 75.0, True),
        ("75", "%", 75.0, True),
        ("3/4", "", 0.75, True),
        ("3M", "B", 3 << 20, True),
        ("3MB", "B", 3e6, True),
        ("3 MiB", "B", 3e6, False),
        ("3 MiB", "MiB", 3, True),
        ("1.5 GiB", "GiB", 1.5, True),
        ("1536 MiB", "GiB", 1.5, True),
        ("3.3 ms", "ms", 3.3, True),
        ("3300 us", "ms", 3.3, True),
        ("3.3e-3 s", "ms", 3.3, True),
        ("0.0033 s", "s", 0.0033, True),
        ("6 steps", "messages", 6, True),
        ("6步", "步", 6, True),
        ("−1", "", -1, True),
        ("7", "", 6, False),
        ("6.05", "", 6, False),
        ("six", "", 6, None),
        ("", "", 6, None),
        ("1/0", "", 6, None),
        ("1e999999999", "", 6, None),
        ("nan", "", 6, None),
        ("1,5", "", 1.5, None),
    ],
)
def test_guesses(text, unit, answer, right):
    assert is_near(text, unit, answer, 0.0) is right


def test_guesses_within_a_tolerance():
    assert is_near("13.9", "%", 14.0, 0.02)
    assert not is_near("13.5", "%", 14.0, 0.02)


# ---------------------------------------------------------------- lines


def test_lines_of_any_language_fit():
    text = "集合通信由进程组中的所有进程共同完成，a word or two，再加上一些汉字。\nend"
    text += "\n    code stays as long as it is, whatever the width may be"
    wrapped = lines.wrap(text, 30, "  - ")
    assert wrapped[0].startswith("  - 集合")
    assert all(cell_len(line) <= 30 for line in wrapped if "code" not in line)
    assert not any(line.strip().startswith(("，", "。")) for line in wrapped)
    assert [cell_len(lines.shorten("集合通信", width)) <= width for width in range(10)] == [True] * 10
    assert cell_len(lines.pad("集合", 7)) == 7


def test_doctor(type_):
    said = type_("doctor")
    assert "two real processes met over loopback" in said
    assert "All is well" in said
    assert "  NO  " not in said
