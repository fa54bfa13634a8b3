"""What functions on ranks are held against: mistakes differ from what is right, and from each other."""

from __future__ import annotations

import pytest

from lessons.checks.experiments import EXPERIMENTS
from lessons.checks.launched import Launched
from lessons.checks.trial import Trial
from lessons.manifest import COURSE

FUNCTIONS = sorted(EXPERIMENTS)
CHECKS = [check for lesson in COURSE for check in lesson.checks]
RANKS = {check.function: check.ranks for check in CHECKS if isinstance(check, Trial | Launched)}
CALLS = [(function, size) for function in FUNCTIONS for size in RANKS[function]]


@pytest.mark.parametrize(("function", "size"), CALLS)
def test_what_is_right_is_as_long_as_there_are_ranks(function: str, size: int) -> None:
    experiment = EXPERIMENTS[function]
    for example in experiment.examples(size):
        right = list(experiment.expected(example, size))
        assert len(right) == size
        assert experiment.same(right, list(experiment.expected(example, size)))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_no_mistake_is_right_and_no_two_are_the_same(function: str) -> None:
    """On the most ranks that the lesson has, over all examples together."""
    experiment, size = EXPERIMENTS[function], max(RANKS[function])
    examples = experiment.examples(size)
    ways = {id: [list(way(one, size)) for one in examples] for id, way in experiment.mistakes.items()}
    ways["right"] = [list(experiment.expected(one, size)) for one in examples]
    alike = [(one, other) for one in ways for other in ways if one < other and experiment.same(ways[one], ways[other])]
    assert alike == []
