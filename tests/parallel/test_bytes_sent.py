"""Closed forms against published figures, and against each other."""

from __future__ import annotations

import pytest

from parallel.formulas import (
    ACCUMULATING,
    FULL,
    MIXED,
    elements_sent,
    hybrid_elements_sent,
    state_bytes,
    thread_exchanges,
    wire_bytes,
)


@pytest.mark.parametrize(("stage", "gigabytes"), [(0, 120.0), (1, 31.40625), (2, 16.640625), (3, 1.875)])
def test_the_zero_paper_has_seven_and_a_half_billion_on_64(stage, gigabytes):
    assert state_bytes(7_500_000_000, 64, stage).total / 1e9 == gigabytes


@pytest.mark.parametrize("element", [MIXED, FULL, ACCUMULATING])
def test_one_rank_splits_nothing(element):
    assert {state_bytes(57, 1, stage, element).total for stage in range(4)} == {57 * element.total}


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_sent_is_what_the_mission_says(ranks):
    """Times (N − 1)/N: stages 0 and 1 2Ψ; stage 2 Ψm + Ψ; stage 3 2Ψm + Ψm, Ψm + Ψm, or 2Ψm + Ψ."""
    share, m = (ranks - 1) / ranks, 5

    def sent(stage, **how):
        return elements_sent(1000, ranks, stage, m, **how).total / share / 1000

    assert [sent(0), sent(1), sent(2), sent(3)] == pytest.approx([2, 2, m + 1, 3 * m])
    assert sent(3, kept=True) == pytest.approx(2 * m)
    assert sent(3, deferred=True) == pytest.approx(2 * m + 1)
    with pytest.raises(ValueError, match="zero=4"):
        sent(4)


def test_hybrid_sharding_between_its_ends():
    """One replica is plain sharding; one shard is plain data parallel, reduced after every microbatch."""
    assert hybrid_elements_sent(1000, 4, 1, 3, 2) == elements_sent(1000, 4, 3, 2)
    alone = hybrid_elements_sent(1000, 1, 4, 3, deferred=True)
    assert alone.total == elements_sent(1000, 4, 0).total == 1500
    both = hybrid_elements_sent(1200, 3, 2, 3)
    assert (both.parameters, both.gradients) == (2 * 800, 800 + 2 * 400 / 2)


def test_bytes_of_an_element_on_the_wire():
    assert [wire_bytes(w) for w in (None, "fp16", "bf16", "int8")] == [4.0, 2.0, 2.0, 1.03125]
    assert wire_bytes(None, own=8) == 8.0
    with pytest.raises(ValueError, match="fp8"):
        wire_bytes("fp8")


def test_five_exchanges_on_one_replica_are_none():
    assert set(thread_exchanges(100, 90, 8, 16, 1).values()) == {0}
    assert thread_exchanges(100, 90, 8, 16, 2) == {
        "scatter": 4, "replicate": 100, "gather": 8, "loss": 8, "gradients": 90,
    }  # fmt: skip
