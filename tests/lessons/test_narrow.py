"""What the commands print on terminals of any width: lines end at blanks, nothing is cut, commands stay whole."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.text import Text

from lessons import lines
from lessons.__main__ import COMMANDS, door
from lessons.catalogue import Catalogue
from lessons.manifest import COURSE
from lessons.text import wrap
from lessons.workspace import Workspace

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
WIDTHS = (40, 80, 120)


def on_a_terminal(width: int, *words: str) -> list[str]:
    """The lines that a command prints to a terminal, stderr included."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "NO_COLOR": "1"}
    environment.pop("COLUMNS", None)
    program = [sys.executable, "-m", "lessons", *words]
    with subprocess.Popen(program, stdin=theirs, stdout=theirs, stderr=theirs, env=environment):
        os.close(theirs)
        shown = b""
        try:
            while more := os.read(ours, 1 << 16):
                shown += more
        except OSError:  # so ends a pseudo-terminal
            pass
    os.close(ours)
    return shown.decode().replace("\r\n", "\n").splitlines()


def together(shown: list[str]) -> str:
    """The text without its line ends, for languages with blanks."""
    return " ".join(" ".join(shown).split())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("width", WIDTHS)
def test_refusals_end_lines_at_blanks_and_keep_commands_whole(folder: Path, width: int) -> None:
    say = Catalogue()
    command = "python -m lessons start 3"
    reason = say("runner.no_file", file="my_lessons/03_naive_all_reduce.py", command=command)
    shown = on_a_terminal(width, "check", "3")
    assert all(cell_len(line) <= width for line in shown)
    assert together(shown) == say("runner.refused", reason=reason)
    assert any(command in line for line in shown)
    shown = on_a_terminal(width, "nonsense")
    assert together(shown) == say(
        "runner.refused", reason=say("runner.no_command", asked="nonsense", commands=list(COMMANDS))
    )
    assert all(cell_len(line) <= width for line in shown)
    shown = on_a_terminal(width, "check", "--nonsense-that-is-long", "--and-more")
    assert all(cell_len(line) <= width for line in shown)
    assert "unrecognized arguments: --nonsense-that-is-long --and-more" in together(shown)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("words", [(), ("check",), ("selftest",)])
def test_help_fits_and_says_all(folder: Path, width: int, language: str, words: tuple[str, ...]) -> None:
    shown = on_a_terminal(width, "--lang", language, *words, "--help")
    assert all(cell_len(line) <= width for line in shown), shown
    say, text = Catalogue(language), "".join("".join(shown).split())
    for name in words or COMMANDS:
        assert "".join(say(f"runner.help.{name}").split()) in text
    if not words:
        commands = re.findall(r"  (python -m \S+(?: \w+)*)  ", say("runner.help.examples"))
        assert len(commands) == 5
        assert all(any(line.strip().startswith(command) for line in shown) for command in commands)
    assert not any(line.strip().startswith(("，", "。", "）", "：")) for line in shown)


def test_a_usage_keeps_options_and_their_values_together() -> None:
    usage = door(Catalogue()).build(["check"]).format_help().split("\n\n")[0]
    assert all(line.count("[") == line.count("]") for line in usage.splitlines())


@pytest.mark.parametrize("width", [24, *WIDTHS])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_list_is_never_cut(folder: Path, width: int, language: str) -> None:
    say = Catalogue(language)
    shown = on_a_terminal(width, "--lang", language, "list")
    assert all(cell_len(line) <= width for line in shown), shown
    text = "".join("".join(shown).split())
    for lesson in COURSE:
        assert "".join(say(f"course.{lesson.number:02}.title").split()) in text
        proves = "".join(say(f"course.{lesson.number:02}.proves").split())
        assert (proves in text) == (width == 120)
    assert "…" not in text
    if width >= 80:
        assert len(shown) == len(COURSE) + 2  # an empty line, and one on the core path


@pytest.mark.parametrize("width", [24, 40, 60, 80, 120])
def test_suggestions_fit_and_commands_are_whole(
    folder: Path, width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("lessons.workspace.columns", lambda: width)
    workspace = Workspace("my_lessons")
    asked = [("runner.start.check", ("check", 4)), ("runner.next.check_twin", ("check", 4, "--broken"))]
    workspace.suggest(*asked)  # type: ignore[arg-type]
    shown = capsys.readouterr().out.splitlines()
    for id, words in asked:
        command = workspace.command(*words)
        assert sum(command in line for line in shown) >= 1
        assert together([workspace.say(id)]) in together(shown)
    assert all(cell_len(line) <= width for line in shown if "python" not in line or width >= 60)


def test_what_is_typed_is_not_parted_even_where_it_is_too_long() -> None:
    command = "python -m lessons check 4 --folder /a/folder/that/is/long"
    for width in (20, 40, 80):
        shown = lines.wrap(f"There is no file yet: {lines.unbroken(command)} makes it.", width)
        assert any(command in line for line in shown)
        assert all(cell_len(line) <= width for line in shown if command not in line)
    assert [line.plain for line in wrap(Text("word" * 8), 16)] == ["word" * 4] * 2
    assert [line.plain for line in wrap(Text("word"), -3)] == list("word")  # no room at all does not hang


def test_a_pipe_gets_a_refusal_in_one_line(folder: Path) -> None:
    ran = subprocess.run([sys.executable, "-m", "lessons", "nonsense"], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
    assert "\u00a0" not in ran.stderr
