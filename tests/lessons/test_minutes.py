"""The minutes of a lesson are counted, not guessed."""

from __future__ import annotations

import pytest

from lessons.lesson import Lesson
from lessons.manifest import COURSE, core_minutes
from lessons.minutes import counted


@pytest.mark.parametrize("lesson", COURSE, ids=lambda lesson: lesson.name)
def test_the_minutes_of_a_lesson_are_those_that_are_counted(lesson: Lesson) -> None:
    assert (lesson.minutes, lesson.further) == counted(lesson)


def test_the_core_path_takes_about_ten_hours() -> None:
    assert 9 * 60 <= core_minutes() <= 11 * 60


def test_what_is_given_or_extra_does_not_count_as_what_is_needed() -> None:
    """Lesson 12 by hand: layer_flops 4 lines, step_flops 2, mfu and training_days 1 each; matmul_time, extra, 3."""
    from lessons.manifest import lesson_numbered
    from lessons.minutes import written

    assert written(lesson_numbered(12)) == (8, 3)
