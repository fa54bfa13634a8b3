"""Lessons as they are read: in a terminal, in a pipe, and as a page in a real browser."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from html import unescape
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.text import Text

from lessons import reading
from lessons.catalogue import LANGUAGES, Catalogue
from lessons.checks.bare import Bare
from lessons.commands.open import write_page
from lessons.figures import Run, Steps
from lessons.glossary import Linker, terms
from lessons.lesson import Lesson, Twin
from lessons.manifest import COURSE
from lessons.markdown import parse, unbroken
from lessons.page import breakable, page
from lessons.reading import Reading, duration
from lessons.text import Terminal, wrap
from lessons.workspace import Workspace
from tests.lessons.in_browser import Elements, browser, opened, opened_all

TEXTS = {
    "problem": "Rank 0 sends a *chunk*; a rank waits. `rank` is code.",
    "picture": "![Four ranks & a ring](ring)\n\nOn the clock:\n\n![A run](run)",
    "formula": "| n | steps |\n|---|---|\n| {ranks} | {steps} |\n\n```\ntime = 2(n−1)·(α + β·S)\n```",
    "task": "Write `ring`.",
    "real": "NCCL does.",
    "hints.one": "A nudge.",
    "hints.two": "An idea.",
    "hints.three": "```python\nyield Send(0)\n```",
    "predict.question": "How many steps on {ranks} ranks?",
    "predict.unit": "ms",
    "predict.why": "Because.",
    "quiz.1.question": "Which one?",
    "quiz.1.a": "`a`",
    "quiz.1.b": "the right one",
    "quiz.1.right": "b",
    "quiz.1.why": "So it is.",
    "twin.task": "Mend it.",
}
FACTS = {"ranks": 4, "steps": 6, "predict_answer": 6.5, "predict_tolerance": 0.1}
MADE_UP = Lesson(
    91,
    "made_up",
    minutes=7,
    needs=(0, 3),
    checks=(Bare("ring", case="rotate"),),
    twin=Twin((), ()),
    figures={"ring": Steps("ring", 4), "run": Run("ring", 4)},
    questions=1,
)


def command(*words: object) -> str:
    return " ".join(["python -m lessons", *map(str, words)])


class Spoken(Catalogue):
    """English, and the texts of a lesson that is made up."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        super().__init__()
        self._files["lesson91"] = dict(texts)
        self._files["course"] = {**self.table("course"), "91.title": "Made <up>", "91.proves": "nothing & all"}


def made_up(monkeypatch: pytest.MonkeyPatch, **changed: str) -> str:
    monkeypatch.setattr(reading, "facts_of", lambda lesson: FACTS)
    texts = {**TEXTS, **{key.replace("_", "."): text for key, text in changed.items()}}
    for change in changed:
        assert change.replace("_", ".") in TEXTS
    return page(Reading(MADE_UP, Spoken(texts)), command, (None, Reading(COURSE[1], Catalogue())))


# The page, as it is written.


def test_a_page_has_everything_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Elements(made_up(monkeypatch))
    headings = "".join(text for tag, text in found.texts if tag in ("h1", "h2"))
    order = ["Made <up>", "The problem", "Predict first", "The picture", "The formula", "Your task"]
    assert headings == "".join([*order, "What real systems do", "Questions", "Words"])
    assert [values["id"] for values in found.all("figure")] == ["figure-ring", "figure-run"]
    assert len([values for values in found.all("details") if values.get("class") == "hint"]) == 3
    assert not any("open" in values for values in found.all("details"))
    text = "".join(text for _, text in found.texts)
    for said in (
        "Lesson 91 · 7 min · builds on 3",
        "python -m lessons check 91",
        "start 91 --broken",
        "Mend it.",
    ):
        assert said in text
    assert "1 · Processes, ranks, send and receive, deadlock" in text


def test_a_page_asks_for_nothing_from_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    text = made_up(monkeypatch)
    found = Elements(text)
    links = [values["href"] for values in found.all("a") + found.all("link")]
    ids = {values["id"] for _, values in found.elements if "id" in values}
    assert all(link == "data:," or link[1:] in ids for link in links)
    assert not any("src" in values for _, values in found.elements)
    assert not any(key.startswith("on") for _, values in found.elements for key in values)
    assert set(re.findall(r"https?://[^\s\"'<&]+", text)) <= {"http://www.w3.org/2000/svg"}
    assert "default-src 'none'" in text


def test_ids_are_unique(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [values["id"] for _, values in Elements(made_up(monkeypatch)).elements if "id" in values]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("key", [key for key in TEXTS if key != "quiz.1.right"])
def test_texts_cannot_break_the_page(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    evil = "<script>alert(1)</script> <b onclick='x'>\"</b> {{title}}".replace("{", "{{").replace("}", "}}")
    keep = '![a"><i>](ring) ![b](run)\n\n' if key == "picture" else ""
    text = made_up(monkeypatch, **{key.replace(".", "_"): keep + evil})
    assert text.count("<script>") == 1
    assert "<b " not in text
    assert "<i>]" not in text
    Elements(text)


def test_the_right_number_and_why_are_in_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    form = next(values for values in Elements(made_up(monkeypatch)).all("form") if values["class"] == "predict")
    assert (form["data-answer"], form["data-tolerance"], form["data-unit"]) == ("6.5", "0.1", "ms")
    assert "<strong>6.5 ms</strong>" in made_up(monkeypatch)


def test_terms_are_linked_where_they_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    text = made_up(monkeypatch)
    problem = re.search(r'<section id="problem".*?</section>', text, re.DOTALL)
    assert problem
    assert re.findall(r'href="#term-(\w+)"[^>]*>([^<]+)', problem[0]) == [
        ("rank", "Rank"),
        ("send", "sends"),
        ("chunk", "chunk"),
    ]
    glossary = re.findall(r'<dt id="term-(\w+)"', text)
    assert set(glossary) == {"rank", "send", "chunk", "step", "nccl", "α", "buffer"} & set(glossary) | {
        "rank",
        "send",
        "chunk",
        "nccl",
    }
    assert "deadlock" not in glossary


def linked(text: str) -> list[str]:
    tokens, linker = parse(text), Linker(terms(Catalogue()))
    linker.link(tokens)
    return list(linker.used)


@pytest.mark.parametrize(
    ("text", "used"),
    [
        ("an all-reduce on ranks", ["all_reduce", "rank"]),
        ("Broadcasts, and NICs", ["broadcast", "nic"]),
        ("`rank` and [a ring](http://x)", []),
        ("# A ring\n\nText.", []),
        ("| rank |\n|---|\n| chunk |", ["chunk"]),
        ("ringing, prank, rank-wise, my_ring, nic", []),
        ("α + β·S", ["latency", "beta"]),
        ("recursive doubling", ["recursive_doubling"]),
    ],
)
def test_which_words_are_terms(text: str, used: list[str]) -> None:
    assert linked(text) == used


def test_no_term_is_linked_inside_of_the_title_of_a_paper() -> None:
    tokens, linker = parse("A. Author, *Bandwidth of a ring*, 2009: the chunk."), Linker(terms(Catalogue()))
    linker.link(tokens, titles=True)
    assert list(linker.used) == ["chunk"]


def test_names_with_a_number_stay_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    text = made_up(monkeypatch, problem="GPT-2, ZeRO-3, a 1-bit <b> code; all-reduce, arXiv:1-2-3, 4−1")
    assert re.findall(r'<span class="whole">(.*?)</span>', text) == ["GPT-2", "ZeRO-3", "1-bit"]
    assert "&lt;b&gt;" in text


def test_wide_letters_of_code_take_two_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    text = made_up(monkeypatch, problem="```\n环形 < a\n```")
    assert '<pre><code><span class="columns">环形</span> &lt; a\n</code></pre>' in text


@pytest.mark.parametrize(
    ("text", "used"),
    [
        ("a sum in place of a mean", []),
        ("a sum in place of a mean, in place", ["in_place"]),
        ("Stage 1 keeps the gradients", []),
        ("stage 1 of a pipeline of 4 stages", ["pipeline_stage"]),
        ("sum up the squares, take the root last", []),
        ("the root of a broadcast", ["root", "broadcast"]),
        ("two random streams", []),
    ],
)
def test_words_that_mean_something_else_are_not_linked(text: str, used: list[str]) -> None:
    assert [one for one in linked(text) if one in ("in_place", "pipeline_stage", "root", "broadcast", "stream")] == used


def test_phrases_that_are_no_term_stand_in_the_course() -> None:
    """Such a phrase contains a form of its term, and goes when no text has it any more."""
    for language in LANGUAGES:
        say = Catalogue(language)
        texts = "\n".join(text for lesson in COURSE for text in say.table(lesson.table).values())
        words = " ".join(texts.split())
        for term in terms(say):
            for phrase in term.others:
                assert any(form in phrase.lower() for form in term.forms), phrase
                assert phrase in words or phrase[0].upper() + phrase[1:] in words, phrase


PHONE = 42  # columns of a block that a window 390 pixels wide shows, nearly


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("lesson", COURSE, ids=lambda lesson: lesson.name)
def test_formulas_fit_a_phone(lesson: Lesson, language: str) -> None:
    say = Catalogue(language)
    text = "".join(say.template(f"{lesson.table}.{part}") for part in ("problem", "picture", "formula"))
    blocks = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    lines = [re.sub(r"\{\w+\}", "0.00", line) for block in blocks for line in block.split("\n")]
    assert [line for line in lines if cell_len(line) > PHONE] == []


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("DP 8 x PP 2, dp 4", "DP~8 x PP~2, dp~4"),
        ("with m = 16 in 21 s", "with m~=~16 in 21~s"),
        ("ranks = 4, a DP of 8", "ranks = 4, a DP of 8"),
    ],
)
def test_no_line_ends_inside_of_a_number(text: str, whole: str) -> None:
    assert unbroken(text) == whole.replace("~", "\u00a0")
    assert parse(text)[1].children[0].content == unbroken(text)


def test_forms_of_terms_are_not_shared() -> None:
    forms = [form for term in terms(Catalogue()) for form in term.forms]
    assert len(forms) == len(set(forms))
    assert all(term.name and term.text.endswith((".", '"nickel".')) for term in terms(Catalogue()))


def test_code_breaks_where_it_may() -> None:
    assert breakable("check 4 --broken") == "check 4 <span>--broken</span>"
    assert breakable("python -m sim") == "python <span>-m</span> sim"
    assert breakable("model.load_state_dict()") == "model.load_state_dict()"
    assert breakable("if rank < size - 1:") == "if rank &lt; <span>size - 1</span>:"
    assert breakable("range(1, layers + 1)") == "range(1, <span>layers + 1</span>)"
    assert breakable("a - b * 2 - 1.5") == "<span>a - b</span> * <span>2 - 1.5</span>"
    assert breakable("rank - inner") == "<span>rank - inner</span>"
    assert breakable("start + reserved_bytes") == "start + reserved_bytes"
    assert breakable("nvidia-smi") == "<span>nvidia-smi</span>"
    long = "torch.utils.checkpoint.checkpoint(f, x < 1)"
    assert breakable(long).startswith("torch.<wbr>utils.<wbr>checkpoint.<wbr>checkpoint(<wbr>f, x &lt; 1")


# The page, in a browser.


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "page.html").write_text(made_up(monkeypatch), "utf-8")
    return tmp_path


@browser
def test_predictions_answer(folder: Path) -> None:
    right = ["6.5", "6.6 ms", "13/2", "0.0065 s", "6500us", " 6,500 us", "650%"]
    wrong = ["7.3", "8", "-6.5", "1e9"]
    result, console = opened(folder / "page.html", f"guesses({json.dumps([*right, *wrong, '', 'many'])})")
    assert result == [False, *["right"] * 7, *["wrong"] * 4, "number", "number", True]
    assert console == ""


@browser
def test_questions_answer(folder: Path) -> None:
    result, console = opened(folder / "page.html", 'choices(["a", "b"])')
    assert result == ["choose", "", "again", "", "right open"]
    assert console == ""


@browser
def test_commands_can_be_copied(folder: Path) -> None:
    result, console = opened(folder / "page.html", "copies()")
    assert result == [["python -m lessons start 91"], True, False, False]
    assert console == ""


@browser
@pytest.mark.parametrize("width", [360, 1200])
def test_nothing_sticks_out(folder: Path, width: int) -> None:
    result, _ = opened(folder / "page.html", "loose()", width)
    assert result == [width, True, []]


@browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(folder: Path, scheme: str) -> None:
    assert opened(folder / "page.html", "faint()", scheme=scheme)[0] == []


@browser
def test_everything_can_be_reached_by_keys(folder: Path) -> None:
    result, _ = opened(folder / "page.html", "reached()")
    assert len(result) > 15
    assert all(result)


@browser
def test_the_replay_plays(folder: Path) -> None:
    path = folder / "page.html"
    path.write_text(path.read_text("utf-8").replace(' sandbox="allow-scripts"', ""), "utf-8")  # to look inside
    result, console = opened(path, "plays()")
    assert result == [True, [], 0, True, True]
    assert console == ""


@browser
def test_steps_fit_a_phone(folder: Path) -> None:
    ask = "all('.frames li').map((one) => one.scrollWidth - one.clientWidth)"
    result, _ = opened(folder / "page.html", f"Promise.resolve({ask})", 390)
    assert result
    assert set(result) == {0}


@browser
def test_the_replay_fits_a_phone(folder: Path) -> None:
    inside = re.search(r'srcdoc="([^"]*)"', (folder / "page.html").read_text("utf-8"))
    assert inside
    (folder / "replay.html").write_text(unescape(inside[1]), "utf-8")
    ask = (
        "wait(200).then(() => [__errors, document.documentElement.scrollWidth <= innerWidth, slider.clientWidth > 200])"
    )
    result, console = opened(folder / "replay.html", ask, 356)
    assert result == [[], True, True]
    assert console == ""


@browser
def test_the_replay_runs_in_its_box(folder: Path) -> None:
    """With the sandbox nobody can look inside; the console would tell what goes wrong there."""
    result, console = opened(folder / "page.html", "replay().then((frame) => frame.getBoundingClientRect().height)")
    assert result > 300
    assert console == ""


@browser
def test_pages_of_the_course_are_sound(tmp_path: Path) -> None:
    workspace = Workspace(str(tmp_path / "my_lessons"))
    paths = [write_page(workspace, lesson) for lesson in COURSE]
    for path in paths:
        Elements(path.read_text("utf-8"))
    results, console = opened_all(paths, "loose()", 360)
    assert results == [[360, True, []]] * len(COURSE)
    assert console == ""


# In the terminal.


def plain(markdown: str, width: int = 60) -> list[str]:
    return [
        line.plain
        for line in Terminal(width, True, lambda name, caption: [Text(f"<{name}: {caption}>")]).lines(markdown)
    ]


def test_markdown_in_lines() -> None:
    text = "One *two* **three** `four`\nfive.\n\n- six\n- seven\n\n  eight\n\n1. nine\n2. ten\n\n"
    assert plain(text + "> said\n\n![A ring](ring)\n") == [
        "One two three `four` five.",
        "",
        "- six",
        "",
        "- seven",
        "",
        "  eight",
        "",
        "1. nine",
        "2. ten",
        "",
        "│ said",
        "",
        "<ring: A ring>",
    ]


def test_code_is_not_wrapped_or_changed() -> None:
    code = "for step in range(size - 1):  # a long line that is wider than what is there\n    yield **x"
    assert plain(f"```python\n{code}\n```", 30) == [f"    {line}" for line in code.split("\n")]


def test_code_inside_a_line_stays_together() -> None:
    assert plain("Now you type `python -m lessons check 4` and look", 30) == [
        "Now you type",
        "`python -m lessons check 4`",
        "and look",
    ]


def test_tables_are_aligned_with_wide_letters() -> None:
    lines = plain("| 算法 | n |\n|---|--:|\n| 环形 | 2(n−1) |\n| tree | `log n` |")
    assert lines == [
        "算法        n",
        "────  ───────",
        "环形   2(n−1)",
        "tree  `log n`",
    ]


def test_tables_that_are_too_wide_are_wrapped() -> None:
    lines = plain("| a | b |\n|---|---|\n| one | " + "word " * 30 + "|", 40)
    assert max(map(len, lines)) <= 40
    assert sum("word" in line for line in lines) > 3


def test_no_line_ends_between_a_number_and_its_unit() -> None:
    assert plain("It takes about 12.5 ms for 64 MiB, at 50 GB/s, on 4 ranks", 17) == [
        "It takes about",
        "12.5 ms for",
        "64 MiB, at",
        "50 GB/s, on 4",
        "ranks",
    ]


def test_no_line_ends_inside_of_a_short_sum() -> None:
    assert plain("is sent to the 4 − 1 others", 16) == ["is sent to the", "4 − 1 others"]
    assert plain("in fp32 it is 4 + 4 + 8 = 16", 16) == ["in fp32 it is", "4 + 4 + 8 = 16"]
    assert plain("It takes 0.875 S of it", 14) == ["It takes", "0.875 S of it"]


CHINESE = "把数据分成 n 块，每一步都把一块发送给右边的邻居（rank+1），"
CHINESE += "同时从左边的邻居接收一块；最后每个进程都有一块完整的和。"


def test_how_long_something_takes() -> None:
    said = [duration(Catalogue(), minutes) for minutes in (5, 60, 65, 300)]
    assert said == ["5 min", "1 h", "1 h 5 min", "5 h"]


@pytest.mark.parametrize("width", range(20, 60))
def test_chinese_is_wrapped_where_it_may(width: int) -> None:
    lines = wrap(Text(CHINESE), width)
    assert all(line.cell_len <= width for line in lines)
    assert all(line.cell_len >= width - 12 for line in lines[:-1])
    assert not any(line.plain[0] in "，。、；：）" or line.plain[-1] in "（" for line in lines)
    assert "".join(line.plain for line in lines).replace(" ", "") == CHINESE.replace(" ", "")


def test_lines_of_a_chinese_paragraph_are_joined_without_a_blank() -> None:
    assert plain("每一步都把一块\n发送给 rank\n右边。") == ["每一步都把一块发送给 rank 右边。"]


def shown(*words: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "LANG": "C.UTF-8", **environment}
    call = [sys.executable, "-m", "lessons", *words]
    return subprocess.run(call, capture_output=True, encoding="utf-8", cwd=cwd, env=env, timeout=60, check=False)


@pytest.mark.parametrize("lesson", [lesson.number for lesson in COURSE])
def test_show_in_a_pipe(tmp_path: Path, lesson: int) -> None:
    done = shown("show", str(lesson), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.split("\n")
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in done.stdout
    assert lines[0].startswith(f"Lesson {lesson} · ")
    assert [line for line in lines if line][-1].strip().startswith(f"python -m lessons start {lesson}")


def test_show_without_unicode(tmp_path: Path) -> None:
    done = shown("show", "6", cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "alpha" in done.stdout
    assert done.stdout.isascii()
    assert done.stdout.count("?") < 20


def test_show_on_a_terminal(tmp_path: Path) -> None:
    import pty

    def on_a_terminal(**environment: str) -> str:
        master, slave = pty.openpty()
        env = {**os.environ, "LANG": "C.UTF-8", "TERM": "xterm-256color", "COLUMNS": "100", **environment}
        if "NO_COLOR" not in environment:
            env.pop("NO_COLOR", None)
        process = subprocess.Popen([sys.executable, "-m", "lessons", "show", "4"], stdout=slave, cwd=tmp_path, env=env)
        os.close(slave)
        output = b""
        while True:
            try:
                output += (piece := os.read(master, 1 << 16))
            except OSError:  # nobody writes any more
                break
            if not piece:
                break
        process.wait(60)
        os.close(master)
        return output.decode()

    coloured = on_a_terminal()
    assert "\x1b[1mThe problem\x1b[0m" in coloured
    without = on_a_terminal(NO_COLOR="1")
    assert "\x1b" not in without
    assert max(len(line) for line in without.split("\r\n")) <= 100


def test_show_needs_no_torch(tmp_path: Path) -> None:
    heavy = ("torch", "numpy", "networkx")
    code = "import sys; from lessons.__main__ import main; main(['show', '4']); "
    code += f"print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout.rstrip().endswith("[]")


def test_open_writes_a_page(tmp_path: Path) -> None:
    done = shown("open", "4", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    path = tmp_path / "my_lessons" / "pages" / "04_ring_reduce_scatter.html"
    assert path.read_text("utf-8").startswith("<!DOCTYPE html>")
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    assert "my_lessons/pages/04_ring_reduce_scatter.html" in done.stdout


def test_open_says_what_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "my_lessons").mkdir()
    (tmp_path / "my_lessons" / "pages").write_text("a file", "utf-8")
    done = shown("open", "4", cwd=tmp_path)
    assert done.returncode == 2
    assert "pages" in done.stderr
    assert len(done.stderr.strip().split("\n")) <= 3
