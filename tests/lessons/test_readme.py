"""What the READMEs say of the course is true, and the Chinese one says what the English one says."""

from __future__ import annotations

import importlib
import re

import pytest

from lessons.catalogue import Catalogue
from lessons.manifest import COURSE
from lessons.systems import README, SYSTEMS, System, table, written

ROOT = README.parent
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LAST = 32  # the number of the last lesson that is planned


def test_the_table_of_systems_is_as_the_course_is() -> None:
    text = README.read_text("utf-8")
    assert written(text) == text, "python -m lessons.systems writes it anew"


def test_all_systems_are_there() -> None:
    assert len(SYSTEMS) == len({system.name for system in SYSTEMS}) == 25


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_modules_and_tests_of_a_system_exist(system: System) -> None:
    for module in system.modules:
        importlib.import_module(module)
    for test in system.tests:
        assert "def test_" in (ROOT / test).read_text("utf-8")
    assert all((system.lessons, system.tests, system.modules))
    assert all(0 <= number <= LAST for number in system.lessons)


def test_a_lesson_that_is_not_written_is_not_named() -> None:
    rows = table(Catalogue()).splitlines()[2:]
    course = {lesson.number for lesson in COURSE}
    for row, system in zip(rows, SYSTEMS, strict=True):
        lesson = row.split(" | ")[1]
        assert (lesson == "–") == course.isdisjoint(system.lessons)


def blocks(name: str) -> list[str]:
    return BLOCK.findall((ROOT / name).read_text("utf-8"))


def test_the_chinese_readme_has_the_commands_of_the_english_one() -> None:
    english, chinese = blocks("README.md"), blocks("README.zh.md")
    assert [block for block in chinese if block not in english] == []
    assert chinese == [block for block in english if block in chinese]
    assert len(chinese) > 15


@pytest.mark.parametrize(("name", "other"), [("README.md", "README.zh.md"), ("README.zh.md", "README.md")])
def test_readmes_point_to_each_other_and_to_files_that_exist(name: str, other: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    assert f"]({other})" in "\n".join(text.splitlines()[:4])
    for link in re.findall(r"\]\(([^)#]+)\)", BLOCK.sub("", text)):
        assert link.startswith("http") or (ROOT / link).exists(), link


def test_both_readmes_list_the_same_commands() -> None:
    def commands(name: str) -> list[str]:
        return re.findall(r"^\| (`python -m [^`]+`) \|", (ROOT / name).read_text("utf-8"), re.MULTILINE)

    assert commands("README.md") == commands("README.zh.md") != []
