"""What a check finds comes in the order of the lesson's text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from lessons.catalogue import Catalogue
from lessons.judge import judge
from lessons.lesson import Lesson
from lessons.manifest import COURSE
from lessons.order import Event, InOrder
from lessons.reading import Reading
from lessons.said import Finding, Passed, Said, Skipped

SAY = Catalogue()
SOLVED = Path(__file__).parents[2] / "lessons" / "course"


def heard(lesson: Lesson, events: Iterable[Event]) -> list[Event]:
    came: list[Event] = []
    order = InOrder(lesson.checks, came.append)
    for event in events:
        order.heard(event)
    order.close()
    return came


def functions(events: Iterable[Event]) -> list[str]:
    """Those of which something was found, each when it came first."""
    return list(dict.fromkeys(one.function for one in events if isinstance(one, Passed | Finding | Skipped)))


@pytest.mark.parametrize("lesson", COURSE[1:], ids=lambda lesson: lesson.name)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_text_the_file_and_the_checks_have_one_order(lesson: Lesson, language: str) -> None:
    assert [name for name in lesson.functions if re.search(rf"^def {name}\(", _stub(lesson), re.M)] == sorted(
        lesson.functions, key=lambda name: _stub(lesson).index(f"def {name}(")
    )
    task = Reading(lesson, Catalogue(language)).text("task")
    listed = [name for name in re.findall(r"^- `(\w+)\(", task, re.M) if name in lesson.functions]
    assert listed in ([], lesson.functions)
    assert listed or lesson.number == 2  # which has the table of its operators


@pytest.mark.parametrize("lesson", COURSE, ids=lambda lesson: lesson.name)
def test_hints_come_in_the_order_of_the_functions(lesson: Lesson) -> None:
    hinted = [function for function in Reading(lesson, SAY).hints if function]
    assert hinted == [function for function in lesson.functions if function in hinted]


def _stub(lesson: Lesson) -> str:
    return (SOLVED / lesson.folder / "stub.py").read_text()


@pytest.mark.parametrize("lesson", COURSE, ids=lambda lesson: lesson.name)
def test_what_is_extra_comes_last_under_its_heading_and_is_not_all(lesson: Lesson) -> None:
    needed = lesson.functions[: len(lesson.functions) - len(lesson.extra)]
    assert (*needed, *lesson.extra) == tuple(lesson.functions)
    assert needed or not lesson.functions
    for name in ("stub", "solution") if lesson.extra else ():
        before, _, after = (SOLVED / lesson.folder / f"{name}.py").read_text().partition("\n# {{course.extra}}\n")
        assert re.findall(r"^def (\w+)", after, re.M) == list(lesson.extra)
        assert set(needed) <= set(re.findall(r"^def (\w+)", before, re.M))


@pytest.mark.parametrize("number", [1, 3])
def test_a_solved_lesson_is_told_in_its_order(number: int) -> None:
    lesson = COURSE[number]
    found = list(judge(lesson, SOLVED / lesson.folder / "solution.py", SAY, ranks=(2, 3)))
    came = heard(lesson, found)
    assert functions(found) != lesson.functions  # schedules are cheap, and come first
    assert functions(came) == lesson.functions
    assert sorted(map(repr, came)) == sorted(map(repr, found))


ROTATE, RELAY, RELAY_BARE = COURSE[1].checks
IN_TURN = (ROTATE, RELAY_BARE, RELAY)  # two that are run bare before one that is proved


def passed(function: str, id: str = "check.ran") -> Passed:
    return Passed(Said(id), function)


def test_what_is_found_bare_is_told_at_once() -> None:
    came: list[Event] = []
    order = InOrder(IN_TURN, came.append)
    order.heard(passed("relay", "check.proved"))
    assert came == []
    order.heard(passed("rotate"))
    assert functions(came) == ["rotate"]
    order.heard(passed("relay_bare"))
    assert functions(came) == ["rotate", "relay_bare"]
    order.heard(passed("relay"))
    assert functions(came) == ["rotate", "relay_bare", "relay"]


def test_nothing_waits_for_functions_that_have_no_turn() -> None:
    """Those that are not written, or wrong already."""
    came: list[Event] = []
    order = InOrder(IN_TURN, came.append)
    order.heard(passed("relay", "check.proved"))
    order.heard(passed("relay_bare"))
    assert functions(came) == ["relay_bare"]
    order.heard(Said("check.running", {"functions": ["relay"]}))
    order.heard(passed("relay"))
    assert len(came) == 4
    alone: list[Event] = []
    order = InOrder(IN_TURN, alone.append)
    order.heard(passed("relay", "check.proved"))
    order.heard(Said("check.running", {"functions": ["relay"]}))
    order.heard(passed("relay"))
    assert functions(alone) == ["relay"]


def test_what_belongs_to_no_function_comes_after_what_came_before() -> None:
    events = [passed("relay"), Finding(Said("process.silent"), "rotate, relay"), passed("rotate")]
    assert functions(heard(COURSE[1], events)) == ["relay", "rotate, relay", "rotate"]
