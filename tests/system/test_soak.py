"""A short soak; ``python -m tests.system.soak`` is the long one."""

from __future__ import annotations

import dataclasses

import pytest

from tests.system.soak.run import Sample, growth, run


@pytest.mark.timeout(300)
@pytest.mark.parametrize("ranks", [2, 3])
def test_mixed_operations_are_right_and_leave_nothing_behind(ranks):
    for account, samples in run(500, ranks, ranks):  # another seed for each
        assert account.wrote == account.want != 0
        assert growth(samples) == []


@pytest.mark.parametrize(("held", "grown"), [("memory", 70), ("threads", 1), ("files", 1)])
def test_growth_is_noticed(held, grown):
    flat = [Sample(number, memory=100.0, threads=5, files=9) for number in range(9)]
    assert growth(flat) == []
    more = dataclasses.replace(flat[-1], **{held: getattr(flat[-1], held) + grown})
    assert len(growth([*flat, more])) == 1
    assert growth([flat[0], more, *flat[1:]]) == []  # only what comes late counts
