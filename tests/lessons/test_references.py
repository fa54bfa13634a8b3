"""What formulas are compared with: told apart, said, and right."""

from __future__ import annotations

import itertools

import pytest

from lessons.catalogue import Catalogue
from lessons.checks.references import REFERENCES, Reference, crossings

EVERY = pytest.mark.parametrize("name", REFERENCES)


def agrees(reference: Reference, one: object, other: object) -> bool:
    """Whether two formulas give the same for every example."""
    assert callable(one)
    assert callable(other)
    return all(reference.same(one(*example), other(*example), example) for example in reference.examples)


@EVERY
def test_no_two_formulas_agree_on_all_examples(name: str) -> None:
    reference = REFERENCES[name]
    formulas = {"right": reference.answer, **reference.mistakes}
    alike = [pair for pair in itertools.permutations(formulas, 2) if agrees(reference, *map(formulas.get, pair))]
    assert alike == []


@EVERY
def test_every_mistake_has_its_sentence(name: str) -> None:
    reference, say = REFERENCES[name], Catalogue()
    assert all(mistake.startswith(f"{name}.") and say(f"formula.{mistake}") for mistake in reference.mistakes)
    assert set(say.table("formula")) >= {"none", "raised", "value"}


@EVERY
@pytest.mark.parametrize("nonsense", [None, "x", [], [1], float("nan"), {}, (1, 2, 3), object, [[]], -1])
def test_whatever_comes_is_compared(name: str, nonsense: object) -> None:
    reference = REFERENCES[name]
    assert not all(reference.same(nonsense, reference.answer(*one), one) for one in reference.examples)


def test_ring_orders_cross_as_rarely_as_any() -> None:
    answer = REFERENCES["ring_order"].answer
    for count in range(1, 7):
        for hosts in itertools.product(range(3), repeat=count):
            least = min(crossings(order, hosts) for order in itertools.permutations(range(count)))
            assert crossings(answer(hosts), hosts) == least


def test_the_line_of_least_squares_may_be_computed_carelessly() -> None:
    reference = REFERENCES["fit"]

    def textbook(points: list[tuple[float, float]]) -> tuple[float, float]:
        n, b, t = len(points), sum(b for b, _ in points), sum(t for _, t in points)
        beta = (n * sum(b * t for b, t in points) - b * t) / (n * sum(b * b for b, _ in points) - b * b)
        return (t - beta * b) / n, beta

    assert agrees(reference, reference.answer, textbook)
