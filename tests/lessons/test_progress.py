"""``progress.json``: what it keeps, from whom, and what becomes of it when it is damaged."""

from __future__ import annotations

import json
import multiprocessing
import os
import stat

import pytest

from lessons.catalogue import Catalogue
from lessons.finished import finished
from lessons.manifest import COURSE
from lessons.progress import Progress
from lessons.refusal import Refusal
from lessons.workspace import State, Workspace, digest, find_folder, find_lesson


def test_what_is_written_is_read_again_and_readable(tmp_path):
    progress = Progress(tmp_path / "my_lessons")
    assert not progress.exists
    with progress.change():
        progress.current = "tour"
        progress.language = "zh"
        progress.lesson("ring_reduce_scatter")["hints"] = 2
        progress.lesson("ring_reduce_scatter", broken=True)["state"] = "started"
    text = (tmp_path / "my_lessons" / "progress.json").read_text()
    assert text.startswith('{\n "version": 1,\n')
    again = Progress(tmp_path / "my_lessons")
    assert (again.exists, again.current, again.language, again.notes) == (True, "tour", "zh", [])
    assert again.lesson("ring_reduce_scatter") == {"hints": 2, "broken": {"state": "started"}}


def test_reading_leaves_no_trace(tmp_path):
    progress = Progress(tmp_path)
    progress.lesson("tour", broken=True)
    assert list(tmp_path.iterdir()) == []
    with progress.change():
        progress.current = "tour"
    assert (
        "lessons" not in json.loads(progress.path.read_text()) or not json.loads(progress.path.read_text())["lessons"]
    )


def test_what_another_version_wrote_is_kept(tmp_path):
    known = {"version": 1, "badge": [1, 2], "lessons": {"tour": {"mood": "good"}, "of_part_two": {"state": "started"}}}
    (tmp_path / "progress.json").write_text("\ufeff" + json.dumps(known))
    progress = Progress(tmp_path)
    with progress.change():
        progress.lesson("tour")["hints"] = 1
    written = json.loads(progress.path.read_text())
    assert written["badge"] == [1, 2]
    assert written["lessons"]["tour"] == {"mood": "good", "hints": 1}
    assert written["lessons"]["of_part_two"] == {"state": "started"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "[" * 100_000,
        '{"version": "1"}',
        '{"version": true}',
        '{"version": 0}',
        '{"version": 1, "lessons": []}',
        '{"version": 1, "lessons": {"tour": 3}}',
        '{"version": 1, "lessons": {"tour": {"hints": "two"}}}',
        '{"version": 1, "lessons": {"tour": {"passed": "yes"}}}',
        '{"version": 1, "lessons": {"tour": {"passed": {"sha256": 7}}}}',
        '{"version": 1, "lessons": {"tour": {"broken": []}}}',
        '{"version": 1, "current": 4}',
        "\xff\xfe",
        '{"version": 1' + "1" * 5000 + "}",
    ],
)
def test_a_damaged_file_is_set_aside_and_the_files_are_found(tmp_path, text):
    (tmp_path / "progress.json").write_bytes(text.encode("latin-1"))
    (tmp_path / "04_ring_reduce_scatter.py").write_text("mine = 1\n")
    progress = Progress(tmp_path)
    (aside,) = tmp_path.glob("progress.damaged-*.json")
    assert aside.read_bytes() == text.encode("latin-1")
    (note,) = progress.notes
    assert aside.name in Catalogue().say(note)
    assert progress.current == "ring_reduce_scatter"
    again = Progress(tmp_path)
    assert again.notes == []
    assert again.lesson("ring_reduce_scatter") == {"state": "started"}
    assert (tmp_path / "04_ring_reduce_scatter.py").read_text() == "mine = 1\n"


def test_damaged_twice_in_a_second(tmp_path):
    for _ in range(3):
        (tmp_path / "progress.json").write_text("{")
        Progress(tmp_path)
    assert len(list(tmp_path.glob("progress.damaged-*.json"))) == 3


def test_damaged_while_it_is_open(tmp_path):
    progress = Progress(tmp_path)
    with progress.change():
        progress.current = "tour"
    progress.path.write_text("oh")
    with progress.change():
        progress.lesson("tour")["hints"] = 1
    assert Progress(tmp_path).lesson("tour") == {"hints": 1}
    assert len(list(tmp_path.glob("progress.damaged-*.json"))) == 1


def test_a_newer_version_is_read_and_not_written(tmp_path):
    text = '{"version": 2, "current": "tour", "lessons": {"tour": {"hints": 3}}}'
    (tmp_path / "progress.json").write_text(text)
    progress = Progress(tmp_path)
    assert progress.lesson("tour")["hints"] == 3
    assert "newer version" in Catalogue().say(progress.notes[0])
    with pytest.raises(Refusal) as refused, progress.change():
        progress.lesson("tour")["hints"] = 4
    assert "up to date" in Catalogue().say(refused.value.said)
    assert (tmp_path / "progress.json").read_text() == text


def _count(folder, name, times):
    for _ in range(times):
        progress = Progress(folder)
        with progress.change():
            record = progress.lesson(name)
            record["hints"] = record.get("hints", 0) + 1


def test_no_update_of_two_commands_is_lost(tmp_path):
    context = multiprocessing.get_context("spawn" if os.name == "nt" else "fork")
    names = ["tour", "tour", "alpha_beta"]
    writers = [context.Process(target=_count, args=(tmp_path, name, 40)) for name in names]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    progress = Progress(tmp_path)
    assert progress.lesson("tour")["hints"] == 80
    assert progress.lesson("alpha_beta")["hints"] == 40


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_to(tmp_path):
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    progress = Progress(tmp_path)
    with pytest.raises(Refusal), progress.change():
        progress.current = "tour"


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    progress = Progress(tmp_path / "file" / "my_lessons") if os.name == "nt" else Progress(tmp_path / "folder")
    progress.folder = tmp_path / "file"
    with pytest.raises(Refusal) as refused, progress.change():
        progress.current = "tour"
    assert "cannot be written to" in Catalogue().say(refused.value.said)


def test_states(tmp_path):
    workspace, lesson = Workspace(str(tmp_path)), COURSE[4]
    assert workspace.state(lesson) is State.OPEN
    file = workspace.file(lesson)
    file.write_text("mine = 1\n")
    assert workspace.state(lesson) is State.STARTED
    with workspace.progress.change():
        workspace.progress.lesson(lesson.name)["passed"] = {"sha256": digest(file), "when": "today"}
    assert workspace.state(lesson) is State.PASSED
    file.write_text("mine = 2\n")
    assert workspace.state(lesson) is State.CHANGED
    with workspace.progress.change():
        workspace.progress.lesson(lesson.name)["state"] = State.SKIPPED
    assert workspace.state(lesson) is State.SKIPPED
    file.write_text("mine = 1\n")
    assert workspace.state(lesson) is State.PASSED
    file.unlink()
    assert workspace.state(lesson) is State.PASSED
    assert workspace.state(lesson, broken=True) is State.OPEN


def test_the_folder_is_found_from_within(tmp_path):
    assert find_folder(tmp_path) == tmp_path / "my_lessons"
    Workspace(str(tmp_path / "my_lessons")).open()
    deep = tmp_path / "my_lessons" / "deep"
    deep.mkdir()
    (tmp_path / "other").mkdir()
    for start in (tmp_path, tmp_path / "other", tmp_path / "my_lessons", deep):
        assert find_folder(start) == tmp_path / "my_lessons"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("4", 4),
        ("04", 4),
        ("0", 0),
        ("ring_reduce_scatter", 4),
        ("operators", 2),
        ("ring-all", 5),
        ("my_lessons/05_ring_all_reduce.py", 5),
        ("05_ring_all_reduce_broken.py", 5),
        ("TOUR", 0),
    ],
)
def test_lessons_by_number_name_and_part(text, number):
    assert find_lesson(text).number == number


@pytest.mark.parametrize(
    "text", ["99", "-1", "1.5", "²", "ring", "reduce", "_", "", "0" * 5000, "nothing", "9" * 5000, "4 ", "all"]
)
def test_lessons_that_there_are_not(text):
    with pytest.raises(Refusal) as refused:
        find_lesson(text)
    assert "\n" not in Catalogue().say(refused.value.said)


PIECE = """
from collectives import Recv, Reduce, Send

def reduce_scatter(rank, size):
    "Mine."
    right, left = (rank + 1) % size, (rank - 1) % size
    for step in range(size - 1):
        yield Send((rank - step - 1) % size, to=right), Reduce((rank - step - 2) % size, source=left)
"""


def test_finished_pieces(tmp_path, monkeypatch):
    from collectives import find, ring

    monkeypatch.setenv("LESSONS_FOLDER", str(tmp_path))
    library = [list(ring.reduce_scatter(1, 4))]
    assert [list(finished("reduce_scatter")(1, 4))] == library
    file = tmp_path / "04_ring_reduce_scatter.py"
    file.write_text(PIECE)
    assert finished("reduce_scatter").__doc__ != "Mine."  # it has not passed
    progress = Progress(tmp_path)
    with progress.change():
        progress.lesson("ring_reduce_scatter")["passed"] = {"sha256": digest(file), "when": "today"}
    assert finished("reduce_scatter").__doc__ == "Mine."
    assert [list(finished("reduce_scatter")(1, 4))] == library
    monkeypatch.delenv("LESSONS_FOLDER")
    (tmp_path / "my_lessons").mkdir()
    for name in ("progress.json", file.name):
        (tmp_path / name).rename(tmp_path / "my_lessons" / name)
    monkeypatch.chdir(tmp_path)
    assert finished("reduce_scatter").__doc__ == "Mine."
    (tmp_path / "my_lessons" / file.name).write_text(PIECE + "\n")
    assert finished("reduce_scatter").__doc__ != "Mine."  # changed since
    assert finished("all_reduce") is find("all_reduce", "ring") or callable(finished("all_reduce"))
    with pytest.raises(ValueError, match="take one of reduce_scatter"):
        finished("all_to_all")
