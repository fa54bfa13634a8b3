"""Pipelines in closed form: against published formulas, and against the schedules simulated action by action."""

from __future__ import annotations

import numpy as np
import pytest

from sim.pipeline import Times, simulate
from sim.planner.bubbles import Slot, makespan
from sim.planner.layout import LOOPED, SCHEDULES, VEE

EQUAL = Slot(1.0, 2.0, 1.0)  # F = I = W
SLOTS = [EQUAL, Slot(1.0, 2.2, 0.9), Slot(1.0, 3.0, 1.0), Slot(1.0, 2.4, 1.2), Slot(1.3, 2.0, 0.8)]
SIZES = [(2, 8, 2), (4, 8, 2), (4, 16, 2), (4, 14, 2), (8, 16, 2), (8, 24, 4)]


def chunks(schedule: str, v: int) -> int | None:
    return v if schedule in LOOPED else None


@pytest.mark.parametrize(
    ("schedule", "bubble"),
    [
        ("gpipe", 3 * 7),  # (p - 1)(F + B): Huang et al. 2019
        ("1f1b", 3 * 7),  # the same: Narayanan et al. 2021
        ("interleaved", 3 * 7 / 2),  # 1/v of it
        ("looped", 3 * 7 / 2),
        ("zb-h1", 7),  # (p - 1)(F + I - W): Qi et al. 2023
        ("zb-h2", 0),  # (p - 1)(F + I - 2 W)
        ("zbv", 0),  # Qi et al. 2024
    ],
)
def test_published_bubbles(schedule, bubble):
    assert makespan(schedule, 8, 32, 2, EQUAL, EQUAL) == pytest.approx(32 * 3 + bubble)


def test_dualpipev_is_the_published_one():
    # (p/2 - 1)(F&B + B - 3 W) with p stages on p/2 ranks, B the whole backward: DeepSeek's DualPipe
    assert makespan("dualpipev", 8, 32, 2, EQUAL, EQUAL) == pytest.approx(32 * 3 + 7 * (3 + 2 - 3) / 2)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("slot", SLOTS)
@pytest.mark.parametrize("p2p", [0.0, 0.02, 0.1])
def test_as_simulated(schedule, slot, p2p):
    for p, m, v in SIZES:
        if schedule == "dualpipev" and m < 2 * p:
            continue
        times = Times(slot.forward, slot.backward, slot.weight, p2p)
        events = simulate(schedule, p, m, chunks(schedule, v), times).stage_span
        assert makespan(schedule, p, m, v, slot, slot, p2p) == pytest.approx(events, rel=0.03), (p, m, v)


@pytest.mark.parametrize("schedule", [name for name in SCHEDULES if name not in ("v-half", "v-min")])
@pytest.mark.parametrize("heavier", [1.02, 1.1, 1.3])
def test_as_simulated_with_a_heavier_stage(schedule, heavier):
    slot = Slot(1.0, 2.2, 0.9)
    heavy = Slot(heavier * slot.forward, heavier * slot.backward, heavier * slot.weight)
    for p, m, v in SIZES:
        straggler = {0 if schedule in VEE else p - 1: heavier}
        times = Times(slot.forward, slot.backward, slot.weight, straggler=straggler)
        events = simulate(schedule, p, m, chunks(schedule, v), times).stage_span
        assert makespan(schedule, p, m, v, heavy, slot) == pytest.approx(events, rel=0.03), (p, m, v)


@pytest.mark.parametrize("schedule", ["v-half", "v-min"])
def test_schedules_of_little_memory_with_a_heavier_stage(schedule):
    slot, heavy = Slot(1.0, 2.2, 0.9), Slot(1.1, 2.42, 0.99)
    times = Times(slot.forward, slot.backward, slot.weight, straggler={0: 1.1})
    for p, m in ((4, 16), (8, 32)):
        events = simulate(schedule, p, m, None, times).stage_span
        assert makespan(schedule, p, m, 2, heavy, slot) == pytest.approx(events, rel=0.08)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_arrays_are_as_good_as_numbers(schedule):
    p, m, v = np.array([2, 4, 8, 16]), np.array([8, 16, 24, 64]), np.array([2, 2, 3, 4])
    heavy, others = Slot(1.1, 2.3, 0.95), Slot(1.0, 2.1, 0.9)
    found = makespan(schedule, p, m, v, heavy, others, 0.05)
    each = [makespan(schedule, int(a), int(b), int(c), heavy, others, 0.05) for a, b, c in zip(p, m, v, strict=True)]
    assert list(found) == each


@pytest.mark.parametrize(("p", "v"), [(2, 8), (4, 4), (8, 2)])
def test_looped_with_as_many_microbatches_as_ranks_waits_for_its_messages(p, v):
    events = simulate("looped", p, p, v, Times(1.0, 2.0, 1.0, 0.01)).stage_span
    assert makespan("looped", p, p, v, EQUAL, EQUAL, 0.01) == pytest.approx(events)
    unhidden = 2 * (p - 1) + 2 * p * (v - 1)
    assert events == pytest.approx(makespan("looped", p, p, v, EQUAL, EQUAL) + 0.01 * unhidden)
