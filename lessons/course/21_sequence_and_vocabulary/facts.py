"""The numbers of lesson 21: activations of a layer of GPT-3, and its logits."""

from __future__ import annotations

from dataclasses import replace

from collectives.contract import contract_of
from sim.planner.activations import layer
from sim.planner.layout import Layout
from sim.planner.models import MODELS
from sim.units import show_bytes

RANKS, FP32, BF16 = 8, 4, 2
NUMBERS = 3  # that cross the ranks, for each token


def facts() -> dict[str, str | int | float]:
    """See ``lesson21.toml``."""
    model = MODELS["gpt3-175b"]
    plan = Layout(tp=RANKS, recompute="selective", flash=False)
    alone, plain, split = (layer(model, one).kept for one in (replace(plan, tp=1), plan, replace(plan, sp=True)))
    between = (plain - split) * RANKS / (RANKS - 1)  # what sequence parallelism splits
    logits = FP32 * model.sequence * model.vocab
    gathered = contract_of("all_gather").factor(RANKS) * logits
    exchanged = contract_of("all_reduce").factor(RANKS) * NUMBERS * FP32 * model.sequence
    unit = model.sequence * model.hidden
    return {
        "ranks": RANKS,
        "sequence": model.sequence,
        "hidden": model.hidden,
        "vocabulary": model.vocab,
        "alone": show_bytes(alone),
        "plain": show_bytes(plain),
        "split": show_bytes(split),
        "units_alone": f"{alone / unit:g}",
        "units_plain": f"{plain / unit:g}",
        "units_split": f"{split / unit:g}",
        "units_between": f"{between / unit:g}",
        "units_inside": f"{(alone - between) / unit:g}",
        "logits": show_bytes(logits),
        "widest": show_bytes(BF16 * model.sequence * model.ffn),
        "own_logits": show_bytes(logits / RANKS),
        "gathered": show_bytes(gathered),
        "exchanged": show_bytes(exchanged),
        "predict_answer": round(100 * between / plain, 1),
        "predict_tolerance": 0.02,
        "calculate_1_answer": round(split / 1e6, 1),
        "calculate_1_tolerance": 0.02,
        "calculate_2_answer": round(gathered / exchanged),
        "calculate_2_tolerance": 0.01,
    }
