"""The numbers of lesson 24: bubbles and what is held, from the simulator."""

from __future__ import annotations

from itertools import count

from sim.pipeline import Times, simulate

STAGES, MICRO = 4, 8
CALC_STAGES, FORWARD, INPUT, WEIGHT = 8, 5.0, 6.0, 4.0  # ms, of the first calculation


def facts() -> dict[str, str | int | float]:
    """See ``lesson24.toml``."""
    known: dict[str, str | int | float] = {"stages": STAGES, "micro": MICRO}
    for name, schedule in (("turns", "1f1b"), ("h1", "zb-h1"), ("h2", "zb-h2"), ("zbv", "zbv")):
        run = simulate(schedule, STAGES, MICRO)
        known[f"{name}_bubble"] = f"{run.bubble_fraction:.1%}"
        known[f"{name}_held"] = f"{max(run.peak_activations):.4g}"
    h1 = simulate("zb-h1", STAGES, MICRO).bubble_fraction
    synced = simulate("zb-h2", STAGES, MICRO, times=Times(sync=True))
    micro = 4 * CALC_STAGES
    run = simulate("zb-h1", CALC_STAGES, micro, times=Times(FORWARD, INPUT + WEIGHT, WEIGHT))
    return known | {
        "sync_bubble": f"{1 - synced.busy / (STAGES * synced.step_time):.1%}",
        "predict_answer": round(100 * h1, 1),
        "predict_tolerance": 0.02,
        "calc_stages": CALC_STAGES,
        "calc_forward": f"{FORWARD:g}",
        "calc_input": f"{INPUT:g}",
        "calc_weight": f"{WEIGHT:g}",
        "calculate_1_answer": round(run.stage_span - micro * (FORWARD + INPUT + WEIGHT), 6),
        "calculate_1_tolerance": 0.001,
        "calculate_2_answer": next(m for m in count(MICRO) if simulate("1f1b", STAGES, m).bubble_fraction <= h1 + 1e-9),
        "calculate_2_tolerance": 0.0,
    }
