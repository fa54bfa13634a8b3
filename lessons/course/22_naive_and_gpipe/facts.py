"""The numbers of lesson 22: bubbles and what is held, from the simulator; activations from the planner."""

from __future__ import annotations

from itertools import count

from sim.pipeline import simulate
from sim.planner.activations import layer
from sim.planner.layout import Layout
from sim.planner.models import find_model

STAGES, MANY = 4, 32
WANTED_STAGES, WANTED = 8, 0.1  # of the first calculation


def facts() -> dict[str, str | int | float]:
    """See ``lesson22.toml``."""
    known: dict[str, str | int | float] = {"stages": STAGES, "waited": STAGES - 1, "many": MANY}
    for stages in (2, 4, 8):
        known[f"naive_{stages}"] = f"{simulate('naive', stages, 1).bubble_fraction:.1%}".replace(".0%", "%")
    for name, microbatches in (("1", 1), ("4", 4), ("8", 8), ("many", MANY)):
        run = simulate("gpipe", STAGES, microbatches)
        known[f"bubble_{name}"] = f"{run.bubble_fraction:.1%}"
        known[f"speed_{name}"] = f"{STAGES * (1 - run.bubble_fraction):.2f}"
        known[f"held_{name}"] = f"{max(run.peak_activations):g}"
    known["bubble_many_few"] = f"{simulate('gpipe', STAGES, 4 * STAGES).bubble_fraction:.1%}"
    known["over_8"] = f"{simulate('gpipe', STAGES, 8).bubble_over_ideal:.1%}"
    model = find_model("gpt2-xl")
    kept, share = layer(model, Layout()).kept, model.layers // STAGES
    enough = next(m for m in count(1) if simulate("gpipe", WANTED_STAGES, m).bubble_fraction <= WANTED + 1e-9)
    return known | {
        "predict_answer": round(100 * simulate("gpipe", STAGES, STAGES).bubble_fraction, 1),
        "predict_tolerance": 0.02,
        "calc_stages": WANTED_STAGES,
        "calc_bubble": f"{WANTED:.0%}",
        "calc_each": f"{enough / WANTED_STAGES:.1f}",
        "calculate_1_answer": enough,
        "calculate_1_tolerance": 0.0,
        "xl_layers": model.layers,
        "xl_kept": round(kept / 1e6),
        "xl_share": share,
        "calculate_2_answer": round(round(kept / 1e6) * share * MANY / 1e3, 1),
        "calculate_2_tolerance": 0.02,
    }
