"""The numbers of lesson 18: GPT-3 on GPUs of 80 GB, from the planner's ledger; ZeRO's traffic from its formulas."""

from __future__ import annotations

import math

from parallel.formulas import MIXED, elements_sent, state_bytes
from sim.planner.layout import Layout
from sim.planner.memory import stage_ledger
from sim.planner.models import MODELS
from sim.planner.parameters import attention, mlp, norms, total

MODEL, CAPACITY = "gpt3-175b", 80e9
CROWDS = (64, 256, 1024)
RANKS = 8
OFFLOADED, PCIE = 7_500_000_000, 32e9  # bytes a second, PCIe 4.0 with 16 lanes, each way


def _gb(nbytes: float) -> str:
    return f"{nbytes / 1e9:.3g} GB"


def _needed(states: float, largest: float, activations: float) -> int:
    """GPUs; 0 if none are enough."""
    left = CAPACITY - largest - activations
    return math.ceil(states / left) if left > 0 else 0


def facts() -> dict[str, str | int | float]:
    """See ``lesson18.toml``."""
    model = MODELS[MODEL]
    elements = total(model)
    block = attention(model) + mlp(model, model.ffn) + norms(model)
    states, largest = state_bytes(elements).total, block * (MIXED.parameters + MIXED.gradients)
    kept, recomputed = (
        stage_ledger(model, Layout(dp=CROWDS[0], zero=3, recompute=recompute), 0) for recompute in ("none", "full")
    )
    every, least = (one.activations + one.logits + one.working for one in (kept, recomputed))
    sent = [elements_sent(elements, RANKS, stage).total for stage in (0, 3)]
    known: dict[str, str | int | float] = {
        "x": f"{elements / 1e9:.4g}",
        "capacity": _gb(CAPACITY),
        "naive": _needed(states, 0, 0),
        "states": f"{states / 1e12:.3g} TB",
        "layers": model.layers,
        "largest": f"{block / 1e9:.3g}",
        "largest_bytes": _gb(largest),
        "every": _gb(every),
        "least": _gb(least),
        "floor": _gb(largest + least),
        "tokens": f"{model.sequence:,}",
        "ratio": f"{sent[1] / sent[0]:g}",
        "offloaded": f"{OFFLOADED / 1e9:g}",
        "host": _gb(OFFLOADED * MIXED.optimizer),
        "pcie": f"{PCIE / 1e9:g} GB/s",
        "down": _gb(OFFLOADED * MIXED.gradients),
        "moved": _gb(OFFLOADED * (MIXED.gradients + MIXED.parameters)),
        "kept_on_gpu": _gb(OFFLOADED * MIXED.parameters),
        "predict_answer": _needed(states, largest, every),
        "predict_tolerance": 0,
        "calculate_1_answer": _needed(states, largest, least),
        "calculate_1_tolerance": 0.03,
        "calculate_2_answer": round(OFFLOADED * (MIXED.gradients + MIXED.parameters) / PCIE, 3),
        "calculate_2_tolerance": 0.02,
    }
    for crowd in (known["naive"], *CROWDS):
        assert isinstance(crowd, int)
        name = "naive" if crowd == known["naive"] else str(crowd)
        share = states / crowd
        known[f"n_{name}"] = crowd
        known[f"share_{name}"] = _gb(share)
        known[f"without_{name}"] = _gb(share + largest + every)
        known[f"with_{name}"] = _gb(share + largest + least)
    return known
