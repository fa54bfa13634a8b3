"""Marked data tell where they come from, and a ledger counts what a function allocates."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lessons.checks.ledger import Ledger
from lessons.checks.marks import MOST_POSITIONS, UNIT, Origin, mark, origin


@given(st.lists(st.integers(0, 15), min_size=1, max_size=8), st.integers(0, MOST_POSITIONS))
def test_a_sum_of_marks_is_read_back(counts: list[int], position: int) -> None:
    value = sum(count * mark(rank, position) for rank, count in enumerate(counts))
    found = origin(value, len(counts))
    assert found == Origin(tuple(counts), position if any(counts) else None)


def test_marks_of_different_positions_do_not_pass_for_one() -> None:
    found = origin(mark(0, 3) + mark(1, 4), 3)
    assert found == Origin((1, 1, 0), None)


@pytest.mark.parametrize(
    "value", [-1.0, UNIT / 2, 7 * UNIT, float("nan"), float("inf"), mark(3, 0), mark(0, MOST_POSITIONS + 1)]
)
def test_a_value_that_no_rank_gave_has_no_origin(value: float) -> None:
    assert origin(value, 3) is None


def test_the_largest_marks_are_exact_in_float64() -> None:
    total = sum(15 * mark(rank, MOST_POSITIONS) for rank in range(8))
    assert torch.tensor(total, dtype=torch.float64).item() / UNIT == sum(
        15 * (16**r * 65536 + MOST_POSITIONS) for r in range(8)
    )


def test_no_mark_and_no_mean_of_marks_is_a_whole_number() -> None:
    for size in (2, 3, 4, 5):
        for position in range(60):
            total = sum(mark(rank, position) for rank in range(size))
            assert total % 1
            assert (total / size) % 1


def test_memory_under_another_name_is_no_new_memory() -> None:
    given_tensor = torch.ones(100, dtype=torch.float64)
    with Ledger([given_tensor]) as ledger:
        torch.from_numpy(given_tensor.numpy()).add_(1)
    assert ledger.peak == 0


def test_a_ledger_counts_what_lives_at_the_worst_moment() -> None:
    given_tensor = torch.ones(100, dtype=torch.float64)
    with Ledger([given_tensor]) as ledger:
        for _ in range(5):
            given_tensor += torch.empty_like(given_tensor)  # one at a time
        assert ledger.peak == 800
        several = [given_tensor.clone() for _ in range(3)]
        assert ledger.peak == ledger.now == 2400
        del several
        given_tensor[3:5].add_(1)  # a view is no memory
        assert ledger.now == 0
    assert ledger.peak == 2400
