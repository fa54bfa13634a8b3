"""The proofs about texts find each kind of fault, on small catalogues that are made up, and none in the course."""

from pathlib import Path

import pytest

from lessons import mentions, parity
from lessons.catalogue import LANGUAGES
from lessons.figures import Steps
from lessons.lesson import Lesson
from lessons.manifest import COURSE

ENGLISH = """
greeting = "Hello, {name}: {count} lessons."
comma = ", "
name = "NCCL"
[part]
text = '''
On 4 ranks, `all_reduce` takes {steps} steps; see `dist.send`. It is 2(n−1) in all.

| ranks | time |
|---|---|
| 2 | {time} |

```python
yield Send(0, to=right)  # the first
```

![A ring](walk)

![A tree](tree)
'''
"""
CHINESE = """
greeting = "你好，{name}：{count} 课。"
comma = "，"
name = "NCCL"
[part]
text = '''
在 4 个进程上，`all_reduce` 需要 {steps} 步；参见 `dist.send`。总共 2(n−1) 步。

| 进程 | 时间 |
|---|---|
| 2 | {time} |

```python
yield Send(0, to=right)  # 第一步
```

![环](walk)

![树](tree)
'''
"""


def catalogue(folder: Path, chinese: str, english: str = ENGLISH) -> Path:
    for language, text in (("en", english), ("zh", chinese)):
        (folder / language).mkdir(parents=True)
        (folder / language / "course.toml").write_text(text, "utf-8")
    return folder


def found(folder: Path, chinese: str) -> list[str]:
    return parity.problems("zh", catalogue(folder, chinese), spoken={})


def test_a_right_translation_has_no_problems(tmp_path: Path) -> None:
    assert found(tmp_path, CHINESE) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('name = "NCCL"\n', "", "course.name is missing"),
        ('name = "NCCL"\n', 'name = "NCCL"\nmore = "多"\n', "course.more is not in English"),
        ("{count}", "{number}", "fields 'name', 'number' where English has 'count', 'name'"),
        ("{count} 课", "{count} {课", "its braces cannot be read"),
        ("| 2 | {time} |\n", "| 2 | {time} |\n| 3 | 秒 |\n", "structure"),
        ("| 进程 | 时间 |\n|---|---|\n| 2 | {time} |", "进程 2 时间 {time}", "structure"),
        ("在 4 个", "# 标题\n\n在 4 个", "structure"),
        ("to=right", "to=left", "code"),
        ("`dist.send`", "`dist.recv`", "code"),
        ("(walk)", "(tree)", "figures"),
        ("在 4 个", "在 5 个", "numerals '1', '2', '2', '5' where English has '1', '2', '2', '4'"),
        ("2(n−1)", "3(n−1)", "numerals"),
        ("你好，{name}：{count} 课。", "Hello, {name}: {count} lessons.", "still English"),
        ("在 4 个", "**好。**在 4 个", "stars that make nothing bold"),
        ("参见 `dist.send`。", "参见 `dist.send`。It is 2(n−1) in all.", "still English"),
    ],
)
def test_each_fault_is_found(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in CHINESE
    problems = found(tmp_path, CHINESE.replace(old, new))
    assert any(said in problem for problem in problems), problems


def test_comments_in_code_are_translated(tmp_path: Path) -> None:
    assert "# the first" in ENGLISH
    assert "# 第一步" in CHINESE
    assert found(tmp_path, CHINESE) == []


def test_files_that_are_missing_or_too_many(tmp_path: Path) -> None:
    folder = catalogue(tmp_path, CHINESE)
    (folder / "en" / "page.toml").write_text('title = "Page"', "utf-8")
    (folder / "zh" / "paper.toml").write_text('title = "纸"', "utf-8")
    assert parity.problems("zh", folder, {}) == ["zh/page.toml is missing", "zh/paper.toml has no English twin"]


def test_what_is_spoken_in_code_is_compared_too(tmp_path: Path) -> None:
    folder = catalogue(tmp_path, CHINESE)
    spoken = {"collectives": {"proof.twice": "rank {rank} counts {whose} twice"}}
    (folder / "zh" / "collectives.toml").write_text('proof.twice = "进程 {rank} 重复计算"', "utf-8")
    assert parity.problems("zh", folder, spoken) == [
        "zh: collectives.proof.twice: fields 'rank' where English has 'rank', 'whose'"
    ]


def test_sentences_are_collected_from_code(tmp_path: Path) -> None:
    (tmp_path / "proof.py").write_text('raise E(Sentence("proof.twice", "rank {rank} "\n  "twice", rank=1))', "utf-8")
    assert dict(parity.sentences(tmp_path)) == {"proof.twice": "rank {rank} twice"}
    spoken = parity.spoken_in_code()
    assert "waits.cycle" in spoken["collectives"]
    assert "show.rank" in spoken["sim"]


# Numbers.


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("takes 12 steps", ["12"]),
        ("takes {steps} steps", []),
        ("4 ranks, 9 chunks, none of them (0)", []),
        ("2(n−1)/n·S, 10⁹ bytes, log₂ n, 3n", []),
        ("an H100, an A100, fp16, 1F1B, ZeRO-3, GPT-2, issue pytorch#31572", []),
        ("since 1994, or 2023", []),
        ("`range(16)` and\n\n```\nfor step in range(32):\n```", []),
        ("50% faster", ["50%"]),
        ("twice, or 4× as long", ["4×"]),
        ("a bucket of 25MiB, or 64KiB", ["25MiB", "64KiB"]),
        ("(about 0.5)", ["0.5"]),
        ("1,024 times", ["1,024"]),
        ("2–16 ranks", ["16"]),
        ("a 16-rank group", ["16"]),
        ("| ranks | time |\n|---|---|\n| 64 | {time} |", ["64"]),
        ("range {a}–{b}, 2({nodes}−1)/{nodes}", []),
    ],
)
def test_literal_numbers(text: str, numbers: list[str]) -> None:
    assert list(parity.literals(text)) == numbers


def test_numbers_names_the_place(tmp_path: Path) -> None:
    lesson = Lesson(4, "ring", minutes=1)
    (tmp_path / "en").mkdir()
    text = 'problem = "takes 12 steps"\nstub.todo = "not 13"\n'
    (tmp_path / "en" / "lesson04.toml").write_text(text, "utf-8")
    assert parity.numbers(lesson, tmp_path) == ["lesson04.problem: 12"]


# Ids in code.


def package(folder: Path, code: str, texts: dict[str, str]) -> Path:
    (folder / "catalogue" / "en").mkdir(parents=True)
    (folder / "runner.py").write_text(code, "utf-8")
    for name, text in texts.items():
        (folder / "catalogue" / "en" / f"{name}.toml").write_text(text, "utf-8")
    return folder


@pytest.mark.parametrize(
    ("code", "text", "problem"),
    [
        ('say("runner.hello", name=1)', 'hello = "{name}"', None),
        ('Said("runner.hello", {"name": 1})', 'hello = "{name}"', None),
        ('Said("runner.hello", fields)', 'hello = "{name}"', None),
        ('say(f"runner.state.{state}")', 'state.open = "open"\nstate.done = "done"', None),
        ('x = ("runner.hello", 1)', 'hello = "Hello"', None),
        ('open("runner.py")', "", None),
        ('say("runner.helo")', 'hello = "Hello"', "runner.py:1: there is no sentence runner.helo"),
        ('say("runner.helo")', 'hello = "Hello"', "runner.hello is never said"),
        (
            'say(f"runner.stat.{state}")',
            'state.open = "open"',
            r"runner.py:1: no sentence is like runner\.stat\.[\w.]+",
        ),
        ('say("runner.hello", nam=1)', 'hello = "{name}"', "runner.py:1: runner.hello has no value for name"),
        ('Said("runner.hello", {"nam": 1})', 'hello = "{name}"', "runner.py:1: runner.hello has no value for name"),
        ('Said("runner.hello")', 'hello = "{name}"', "runner.py:1: runner.hello has no value for name"),
    ],
)
def test_ids_in_code(tmp_path: Path, code: str, text: str, problem: str | None) -> None:
    problems = mentions.problems(package(tmp_path, code, {"runner": text}), course=())
    assert problems == [] if problem is None else problem in problems, problems


LESSON = """
problem = "p"
picture = "![A ring](walk)"
formula = "f"
task = "t"
real = "r"
hints.one = "1"
hints.two = "2"
hints.three = "3"
predict.question = "q"
predict.unit = "ms"
predict.why = "w"
quiz.1.question = "q"
quiz.1.a = "a"
quiz.1.b = "b"
quiz.1.right = "b"
quiz.1.why = "w"
stub.todo = "t"
"""


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("", "", None),
        ('real = "r"', "", "lesson91: real is missing"),
        ('hints.two = "2"', "", "lesson91: hints.two is missing"),
        ('stub.todo = "t"', "", "lesson91: stub.todo is missing"),
        ('stub.todo = "t"', 'stub.todo = "t"\nstub.more = "m"', "lesson91: stub.more is never said"),
        ('right = "b"', 'right = "c"', "lesson91: quiz.1.right names a choice that is not there"),
        ('right = "b"', 'right = "B"', "lesson91: quiz.1.right is none of a, b, c, d"),
        ('formula = "f"', 'formula = "{steps}"', "lesson91: formula has no fact steps"),
        ("(walk)", "(wlk)", "lesson91: figure wlk is not in the manifest"),
        ("![A ring](walk)", "none", "lesson91: figure walk is never shown"),
    ],
)
def test_texts_of_a_lesson(tmp_path: Path, old: str, new: str, problem: str | None) -> None:
    root = package(tmp_path, "", {"lesson91": LESSON.replace(old, new)})
    (root / "course" / "91_made_up").mkdir(parents=True)
    (root / "course" / "91_made_up" / "stub.py").write_text("# {{stub.todo}}\n", "utf-8")
    lesson = Lesson(91, "made_up", minutes=1, figures={"walk": Steps("ring", 4)}, questions=1)
    problems = mentions.problems(root, (lesson,))
    assert problems == [] if problem is None else problem in problems, problems


# The course.


def test_the_course_says_what_it_knows() -> None:
    assert mentions.problems() == []


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_every_language_says_what_english_says(language: str) -> None:
    assert parity.problems(language) == []


def test_the_course_has_no_literal_numbers() -> None:
    assert [number for lesson in COURSE for number in parity.numbers(lesson)] == []
