"""A whole training run: FLOPs, checkpoints against failures, and how many tokens a model deserves."""

from __future__ import annotations

import math

import pytest

from sim.planner.campaign import PF_DAY, bill, kaplan_split, optimal_split, optimal_tokens, saving_of
from sim.planner.failures import MOST_FAILURES, Saving, simulated_goodput

SAVING = Saving(mtbf=4 * 3600, write=60, restart=300)


def test_young_and_daly():
    assert SAVING.young == math.sqrt(2 * 60 * 14400)
    # Daly 2006, equation 37, written out
    ratio = 60 / (2 * 14400)
    assert SAVING.daly == pytest.approx(SAVING.young * (1 + math.sqrt(ratio) / 3 + ratio / 9) - 60)
    assert Saving(mtbf=10, write=30, restart=0).daly == 10


def test_daly_is_the_least_of_the_closed_form():
    tried = [SAVING.daly * (0.2 + 0.01 * step) for step in range(300)]
    best = min(tried, key=lambda interval: SAVING.expected_s(1e6, interval))
    assert best == pytest.approx(SAVING.daly, rel=0.02)


@pytest.mark.parametrize("factor", [0.3, 1, 3])
def test_failures_as_events_are_the_closed_form(factor):
    interval = SAVING.daly * factor
    shares = [simulated_goodput(SAVING, 3e6, interval, seed)[0] for seed in range(40)]
    assert sum(shares) / len(shares) == pytest.approx(SAVING.goodput(interval), rel=0.01)


def test_failures_strike_restarts_too():
    often = Saving(mtbf=1000, write=20, restart=800)
    shares = [simulated_goodput(often, 1e5, often.daly, seed)[0] for seed in range(100)]
    assert sum(shares) / len(shares) == pytest.approx(often.goodput(often.daly), rel=0.03)


def test_without_failures_only_saving_costs():
    rare = Saving(mtbf=1e12, write=10, restart=0)
    assert simulated_goodput(rare, 1000, 100) == (pytest.approx(1000 / 1100), 0)
    assert rare.goodput(100) == pytest.approx(100 / 110)


def test_the_same_seed_fails_at_the_same_times():
    assert simulated_goodput(SAVING, 1e6, 1000, 7) == simulated_goodput(SAVING, 1e6, 1000, 7)
    assert simulated_goodput(SAVING, 1e6, 1000, 7) != simulated_goodput(SAVING, 1e6, 1000, 8)


def test_failures_that_leave_no_time():
    hopeless = Saving(mtbf=1, write=1000, restart=1000)
    assert hopeless.goodput(hopeless.daly) == 0


def test_llama_3_lost_what_is_published():
    # Grattafiori et al. 2024, section 3.3.4: 419 unexpected interruptions in 54 days on 16,384 GPUs
    saving = saving_of(16_384, 50_000, 5.7e12, 2e12, 600)
    assert 54 * 86400 / saving.mtbf == pytest.approx(419, rel=0.02)


def test_chinchilla():
    # Hoffmann et al. 2022: 5.76e23 FLOPs are best spent on about 67 to 70 B parameters and 1.4 to 1.5 T tokens
    parameters, tokens = optimal_split(5.76e23)
    assert parameters == pytest.approx(69e9, rel=0.03)
    assert tokens == pytest.approx(1.4e12, rel=0.03)
    assert optimal_tokens(70e9) == 1.4e12


def test_kaplan():
    assert kaplan_split(PF_DAY) == (1.3e9, 2e10)
    larger = kaplan_split(10 * PF_DAY)
    assert larger[0] / 1.3e9 == pytest.approx(10**0.73)
    assert larger[1] / 2e10 == pytest.approx(10**0.27)


def test_the_bill():
    found = bill(training_s=86400 * 10, goodput=0.5, gpus=100, gpu_hour=2.5, watts=700)
    assert found.days == 20
    assert found.days_without_failures == 10
    assert found.gpu_hours == 48_000
    assert found.price == 120_000
    assert found.energy_kwh == 33_600


def test_a_run_of_very_many_failures_is_cut_short():
    saving = Saving(mtbf=1000.0, write=10.0, restart=60.0)
    share, failures = simulated_goodput(saving, work=1e12, interval=2000.0)
    assert 0.8 * MOST_FAILURES < failures < 1.2 * MOST_FAILURES
    assert share == pytest.approx(saving.goodput(2000.0), rel=0.1)
