"""Quizzes ask for what one knows: the right choice does not stand out among the others."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from lessons.catalogue import LANGUAGES, Catalogue
from lessons.manifest import COURSE
from lessons.reading import Reading


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_right_choice_cannot_be_told_by_its_length(language: str) -> None:
    shares = {}
    for lesson in COURSE:
        for number, question in enumerate(Reading(lesson, Catalogue(language)).questions, 1):
            lengths = {letter: cell_len(choice) for letter, choice in question.choices.items()}
            right = lengths.pop(question.right)
            shares[lesson.number, number] = right / max(lengths.values())
    assert {key: share for key, share in shares.items() if share > 1.5} == {}
    assert sum(share > 1 for share in shares.values()) <= 0.4 * len(shares)


def test_every_letter_is_right_about_as_often() -> None:
    questions = [question for lesson in COURSE for question in Reading(lesson, Catalogue("en")).questions]
    for letter in "abcd":
        offered = [question for question in questions if letter in question.choices]
        right = sum(question.right == letter for question in offered)
        assert 0.2 < right / len(offered) < 0.3, f"{letter} is right in {right} of {len(offered)}"
