"""The numbers of lesson 27: steps on more and more GPUs over three links, by the check's formulas and the planner."""

from __future__ import annotations

from lessons.checks.planned import Planned
from lessons.checks.references import REFERENCES
from lessons.figures.plot import Data
from sim.planner.models import find_model
from sim.planner.parameters import total
from sim.units import show_count, show_gigabytes, show_time

PLAN = Planned()
ALPHA, FAST, NBYTES = PLAN.links()
SLOW, SLOWEST = 8 / 100e9, 8 / 10e9  # seconds a byte: 100 and 10 Gbit/s
CROWD, FEW, MANY = 4096, 256, 4096


def _of(function: str, *arguments: float) -> float:
    return float(REFERENCES[function].answer(*arguments))


def facts() -> dict[str, str | int | float]:
    """See ``lesson27.toml``."""
    whole = PLAN.step(1).compute
    each = whole / PLAN.batch * 8
    known: dict[str, str | int | float] = {
        "model": "GPT-2 XL",
        "parameters": show_count(total(find_model(PLAN.model))),
        "bytes": show_gigabytes(NBYTES),
        "bits": 16,
        "batch": f"{PLAN.batch:,}",
        "local": 8,
        "whole": show_time(whole),
        "each": show_time(each),
        "fast": f"{1 / FAST / 1e9:.0f} GB/s",
        "slow": "100 Gbit/s",
        "slowest": "10 Gbit/s",
        "crowd": f"{CROWD:,}",
        "few": FEW,
        "many": f"{MANY:,}",
        "times": MANY // FEW,
    }
    for name, beta in (("fast", FAST), ("slow", SLOW), ("slowest", SLOWEST)):
        for column, gpus in (("8", 8), ("few", FEW), ("crowd", CROWD)):
            known[f"{name}_{column}"] = f"{_of('weak_efficiency', gpus, each, NBYTES, ALPHA, beta):.0%}"
        known[f"{name}_hidden"] = f"{_of('hidden_gpus', whole, NBYTES, ALPHA, beta, PLAN.batch):,.0f}"
        best = _of("fastest_gpus", whole, NBYTES, ALPHA, beta, PLAN.batch)
        known[f"{name}_best"] = f"{best:,.0f}"
        known[f"{name}_time"] = show_time(_of("strong_time", best, whole, NBYTES, ALPHA, beta))
        known[f"{name}_share"] = f"{_of('strong_efficiency', best, whole, NBYTES, ALPHA, beta):.0%}"
    few, many = (_of("strong_time", gpus, whole, NBYTES, ALPHA, SLOW) for gpus in (FEW, MANY))
    half = _of("strong_time", MANY, whole, NBYTES / 4, ALPHA, SLOW)
    idle = 1 - _of("strong_efficiency", FEW, whole, NBYTES, ALPHA, SLOWEST)
    return known | {
        "few_time": show_time(few),
        "many_time": show_time(many),
        "many_share": f"{_of('strong_efficiency', MANY, whole, NBYTES, ALPHA, SLOW):.0%}",
        "quarter_times": f"{many / half:.1f}",
        "many_steps": f"{2 * (MANY - 1):,}",
        "many_alpha": show_time(2 * (MANY - 1) * ALPHA),
        "predict_answer": round(few / many, 2),
        "predict_tolerance": 0.1,
        "calculate_1_answer": round(100 * idle, 1),
        "calculate_1_tolerance": 0.03,
        "calculate_2_answer": _of("hidden_gpus", 2 * whole, NBYTES, ALPHA, SLOW, 10**4),
        "calculate_2_tolerance": 0.05,
    }


def steps() -> Data:
    """Seconds of a step of the whole batch, over the number of GPUs."""
    gpus, whole = [2.0**power for power in range(13)], PLAN.step(1).compute
    curves = {"ideal": [whole / n for n in gpus]}
    for name, beta in (("fast", FAST), ("slow", SLOW), ("slowest", SLOWEST)):
        curves[name] = [_of("strong_time", n, whole, NBYTES, ALPHA, beta) for n in gpus]
    return Data(gpus, curves)
