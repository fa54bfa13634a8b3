"""Answers that learners really give get the sentence that names their mistake; right ones pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectives import Send
from lessons.answer import Answer, load_answer, read_answer
from lessons.catalogue import Catalogue
from lessons.checks.bare import Bare
from lessons.checks.program import Program
from lessons.checks.trial import Trial
from lessons.judge import judge
from lessons.lesson import Lesson
from lessons.manifest import COURSE, lesson_numbered
from lessons.said import Finding, Said, Skipped

HERE = Path(__file__).parent
WRONG = sorted((HERE / "wrong_answers").glob("*.py"))
SAY = Catalogue()


def _findings(lesson: Lesson, path: Path, twin: bool = False) -> list[Finding]:
    return [one for one in judge(lesson, path, SAY, twin=twin) if isinstance(one, Finding)]


def _id(finding: Finding) -> str:
    return "" if isinstance(finding.sentence, str) and not hasattr(finding.sentence, "id") else finding.sentence.id


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_a_wrong_answer_gets_the_right_sentence(path: Path) -> None:
    _, finding, says, *_ = path.read_text(encoding="utf-8").splitlines()
    first = next(one for one in judge(lesson_numbered(int(path.name[:2])), path, SAY) if isinstance(one, Finding))
    assert f"# finding: {first.function} {_id(first)}" == finding
    assert f"# says: {SAY.say(first.sentence)}" == says


def test_there_are_many_mistakes_and_many_sentences() -> None:
    lessons = {path.name[:2] for path in WRONG}
    sentences = {path.read_text(encoding="utf-8").splitlines()[1].split()[-1] for path in WRONG}
    assert lessons == {f"{lesson.number:02}" for lesson in COURSE if lesson.checks}
    assert len(WRONG) >= 80
    assert len(sentences) >= 50


PICTURED = [one for one in COURSE if one.twin and isinstance(one.twin.checks[0], (Bare, Program))]


@pytest.mark.parametrize("lesson", PICTURED, ids=lambda lesson: lesson.folder)
def test_a_picture_goes_with_what_happened(lesson: Lesson) -> None:
    path = HERE.parents[1] / "lessons" / "course" / lesson.folder / "broken.py"
    first = _findings(lesson, path, twin=True)[0]
    assert first.picture
    assert all(f"rank {rank}" in "\n".join(first.picture) for rank in range(first.ranks))


def _written(folder: Path, text: str) -> Path:
    path = folder / "answer.py"
    path.write_text(text, encoding="utf-8")
    return path


SUM_OF_THE_ENDS = """
import torch.distributed as dist
def reduce_tied(gradient, mesh):
    if gradient is None:
        return
    dist.all_reduce(gradient, group=mesh.group("dp"))
    gradient /= mesh.axes["dp"]
    dist.all_reduce(gradient, group=mesh.group("pp"))
"""


@pytest.mark.timeout(200)
def test_a_sum_that_some_ranks_leave_out_is_named_without_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stages between have gone on to the groups of the next example."""
    monkeypatch.setattr("lessons.checks.trial.SECONDS", 900)
    path = _written(tmp_path, SUM_OF_THE_ENDS)
    answer = load_answer(path, SUM_OF_THE_ENDS)
    assert isinstance(answer, Answer)
    (finding,) = Trial("reduce_tied", ranks=(2, 4)).dear(answer, SAY, ())
    assert isinstance(finding, Finding)
    assert SAY.say(finding.sentence).startswith("rank 0 waits in allreduce (answer.py:8), which rank 1 never enters")
    assert finding.ranks == 4


BAD_FILES = {
    "file.syntax": "def rotate(mine:\n",
    "file.load": "import no_such_module_anywhere\n",
    "file.missing": "x = 1\n",
    "file.misnamed": "def rotat(mine):\n    return mine\n",
    "file.no_function": "rotate = 3\n",
    "file.todo": "def rotate(mine):\n    '''Nothing yet.'''\n    raise NotImplementedError('later')\n",
}


@pytest.mark.parametrize("sentence", BAD_FILES)
def test_a_file_that_is_no_answer_is_told_so(sentence: str, tmp_path: Path) -> None:
    path = _written(tmp_path, BAD_FILES[sentence])
    assert sentence in [_id(one) for one in _findings(COURSE[1], path)]


UNREAD = {
    "latin-1": ("x = 1\n# é\n".encode("latin-1"), "not saved as utf-8, as Python expects it: a character in line 2"),
    "first line": ("# é".encode("latin-1"), "a character in line 1"),
    "gbk": ("# 早\n".encode("gbk"), "Save the file as UTF-8"),
    "other than it says": ("# coding: ascii\n\nx = 'é'\n".encode(), "not saved as ascii"),
    "utf-16": ("x = 1\n".encode("utf-16"), "saved as UTF-16"),
    "utf-16 without a mark": ("x = 1\n".encode("utf-16-le"), "NUL byte in line 1"),
    "null": (b"x = 1\ny = '\0'\n", "NUL byte in line 2"),
    "unknown": (b"# coding: latin-77\n", "unknown encoding: latin-77"),
    "no text": (b"# coding: rot13\n", "names its encoding is wrong"),
}


@pytest.mark.parametrize("name", UNREAD)
def test_a_file_in_another_encoding_is_told_so(name: str, tmp_path: Path) -> None:
    data, words = UNREAD[name]
    path = tmp_path / "answer.py"
    path.write_bytes(data)
    (finding,) = _findings(COURSE[1], path)
    assert words in SAY.say(finding.sentence)
    assert "answer.py" in Catalogue("zh").say(finding.sentence)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8", "utf-8-sig", "gbk"])
def test_a_file_may_name_its_encoding(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "answer.py"
    letter = "早" if encoding == "gbk" else "é"
    path.write_bytes(f"# coding: {encoding}\r\nx = '{letter}'\r\n".encode(encoding))
    source = read_answer(path)
    assert isinstance(source, str)
    assert "\r" not in source
    answer = load_answer(path, source)
    assert isinstance(answer, Answer)
    assert answer.module.x == letter


def test_a_file_that_leaves_python_while_it_loads_is_told_so(tmp_path: Path) -> None:
    findings = _findings(COURSE[1], _written(tmp_path, "import sys\nsys.exit(3)\n"))
    assert [_id(one) for one in findings] == ["file.load"]
    assert "SystemExit" in SAY.say(findings[0].sentence)


def test_a_file_can_import_what_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "steps_of_mine.py").write_text("from collectives import Send\n", encoding="utf-8")
    answer = load_answer(tmp_path / "answer.py", "import steps_of_mine\nrandom = 3\n")
    assert isinstance(answer, Answer)
    assert answer.module.steps_of_mine.Send is Send


ROTATE = "import os, signal, sys, time\nimport torch.distributed as dist\ndef rotate(mine):\n"


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("    if dist.get_rank() == 1: os.kill(os.getpid(), signal.SIGKILL)\n    dist.barrier()\n", "process.killed"),
        ("    if dist.get_rank() == 1: os._exit(3)\n    dist.barrier()\n", "process.exited"),
        ("    return dist.get_rank()\n", "values.kind"),
        ("    return mine if dist.get_rank() else None\n", "values.none_on_some"),
        ("    return mine[:3]\n", "values.shape"),
        ("    return mine.float()\n", "values.dtype"),
        ("    dist.all_reduce(mine)\n    return mine\n", "bare.collective"),
    ],
)
def test_what_happens_in_ranks_is_told(body: str, sentence: str, tmp_path: Path) -> None:
    assert sentence in [_id(one) for one in _findings(COURSE[1], _written(tmp_path, ROTATE + body))]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "    if dist.get_rank() == 0: import ctypes; ctypes.string_at(0)\n",
            "It was in line 4 of answer.py, in rotate.",
        ),
        ("    if dist.get_rank() == 0: os._exit(3)\n", ""),
        ("    if dist.get_rank() == 0: dist.isend(mine, 1); os._exit(3)\n", "isend to rank 1 (answer.py:4)"),
        (
            "    if dist.get_rank() == 0: dist.isend(mine, 1); os.kill(os.getpid(), 9)\n",
            "isend to rank 1 (answer.py:4)",
        ),
    ],
)
def test_a_rank_that_is_gone_is_told_with_its_line(body: str, said: str, tmp_path: Path) -> None:
    waits = "    while dist.get_rank(): time.sleep(9)\n"
    found = _findings(COURSE[1], _written(tmp_path, ROTATE + body + waits))
    (gone,) = [one for one in found if one.function == "rotate"]
    told = [SAY.say(detail) for detail in gone.details if isinstance(detail, Said)]
    assert told == [] if not said else said in told[0]


def test_threads_that_a_file_leaves_running_are_no_mistake(tmp_path: Path) -> None:
    solution = (HERE.parents[1] / "lessons/course/01_send_and_receive/solution.py").read_text(encoding="utf-8")
    thread = "import threading, time\nthreading.Thread(target=time.sleep, args=(20,)).start()\n"
    assert _findings(COURSE[1], _written(tmp_path, f"{solution}\n\n{thread}")) == []


TAKE_TURNS = """    rank, size, got = dist.get_rank(), dist.get_world_size(), [None]
    for turn in (rank % 2, 1 - rank % 2):
        if turn:
            dist.recv_object_list(got, src=(rank - 1) % size)
        else:
            dist.send_object_list([mine], dst=(rank + 1) % size)
    return got[0]
"""
ASK_ON = """    rank, size = dist.get_rank(), dist.get_world_size()
    theirs = mine.clone()
    work = dist.isend(mine, dst=(rank + 1) % size), dist.irecv(theirs, src=(rank - 1) % size)
    while not all(one.is_completed() for one in work):
        time.sleep(0.001)
    return theirs
"""


def test_objects_for_tensors_are_too_dear(tmp_path: Path) -> None:
    found = _findings(COURSE[1], _written(tmp_path, ROTATE + TAKE_TURNS))
    (dear,) = [one for one in found if one.function == "rotate"]
    assert _id(dear) == "bare.objects"
    assert "answer.py:" in SAY.say(dear.sentence)
    assert "sends 2 messages on 4 ranks" in SAY.say(dear.details[0])


def test_who_asks_on_and_on_whether_a_message_is_there_is_told_to_wait(tmp_path: Path) -> None:
    found = _findings(COURSE[1], _written(tmp_path, ROTATE + ASK_ON))
    (asked,) = [one for one in found if one.function == "rotate"]
    assert "is_completed() is asked again and again of send to rank" in SAY.say(asked.sentence)
    assert "is_completed()" in Catalogue("zh").say(asked.sentence)


PROGRAM = "from collectives import Recv, Reduce, Send\ndef reduce_scatter(rank, size):\n"


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("    while True: yield ()\n", "program.endless"),
        ("    yield 1 / 0\n", "program.raised"),
        ("    yield 'something'\n", "messages.no_operation"),
        ("    yield Send, Recv\n", "messages.bare_class"),
        ("    yield Recv\n", "messages.bare_class"),
        ("    return Recv\n", "program.returned_one"),
        ("    yield Send(0, to=(rank + 1) % size)\n", "proof.never_received"),
        ("    yield Send(9, to=(rank + 1) % size), Recv(9, source=(rank - 1) % size)\n", "messages.in_operation"),
    ],
)
def test_what_is_no_schedule_is_told(body: str, sentence: str, tmp_path: Path) -> None:
    assert sentence in [_id(one) for one in _findings(COURSE[4], _written(tmp_path, PROGRAM + body))]


def test_what_uses_a_wrong_function_is_not_told_again(tmp_path: Path) -> None:
    solution = (HERE.parents[1] / "lessons/course/05_ring_all_reduce/solution.py").read_text(encoding="utf-8")
    assert "Recv(" in solution
    events = list(judge(COURSE[5], _written(tmp_path, solution.replace("Recv(", "Reduce(")), SAY))
    wrong = [one for one in events if isinstance(one, Finding)]
    assert [(one.function, _id(one)) for one in wrong] == [("all_gather", "repair.recv")]
    assert Skipped(Said("check.later", {"function": "all_reduce", "first": "all_gather"}), "all_reduce") in events


def test_what_uses_an_unwritten_function_is_not_judged(tmp_path: Path) -> None:
    solution = (HERE.parents[1] / "lessons/course/03_naive_all_reduce/solution.py").read_text(encoding="utf-8")
    head, _, rest = solution.partition("def average_bare")
    first = "def all_reduce_bare(tensor: Tensor) -> None:\n    raise NotImplementedError\n\n\n"
    head = head[: head.index("def all_reduce_bare")]
    events = list(judge(COURSE[3], _written(tmp_path, head + first + "def average_bare" + rest), SAY))
    assert [_id(one) for one in events if isinstance(one, Finding)] == ["file.todo"]
    assert [one.function for one in events if isinstance(one, Skipped)] == ["average_bare"]


def test_a_file_that_changes_during_its_check_is_judged_as_it_was(tmp_path: Path) -> None:
    solution = (HERE.parents[1] / "lessons/course/01_send_and_receive/solution.py").read_text(encoding="utf-8")
    path = _written(tmp_path, solution)
    findings = []
    for event in judge(COURSE[1], path, SAY):
        path.write_text("def rotate(mine:\n", encoding="utf-8")
        findings += [event] if isinstance(event, Finding) else []
    assert findings == []


def test_not_implemented_for_some_arguments_is_written(tmp_path: Path) -> None:
    body = "    if mine.dim() > 9:\n        raise NotImplementedError\n    return mine\n"
    found = [_id(one) for one in _findings(COURSE[1], _written(tmp_path, ROTATE + body))]
    assert "values.own_returned" in found


@pytest.mark.parametrize("error", ["KeyboardInterrupt", "SystemExit(0)", "BaseException('x')"])
def test_whatever_a_schedule_raises_is_told(error: str, tmp_path: Path) -> None:
    body = f"    raise {error}\n    yield ()\n"
    assert "program.raised" in [_id(one) for one in _findings(COURSE[4], _written(tmp_path, PROGRAM + body))]


def test_a_rank_that_computes_without_end_is_named_with_its_line(tmp_path: Path) -> None:
    body = "    while dist.get_rank() == 0:\n        pass\n    dist.send(mine, 0)\n    return mine\n"
    found = _findings(COURSE[1], _written(tmp_path, ROTATE + body))
    (busy,) = [one for one in found if one.function == "rotate"]
    assert _id(busy) == "process.busy"
    assert any(f"line {line}" in SAY.say(busy.sentence) for line in (4, 5))
