"""The numbers of lesson 28: failures of many GPUs and how often to save, from the planner; sizes from its models."""

from __future__ import annotations

from sim.planner.failures import Saving
from sim.planner.models import MODELS
from sim.planner.parameters import total

DAYS, INTERRUPTIONS, GPUS = 54, 419, 16_384  # unexpected ones, as the paper on Llama 3 reports them
WRITE = 60.0  # seconds of a save
FEW = 8
ELEMENTS, SAVED, LOADED = 11, 4, 3  # of the figure
MODEL, STATE = "llama3.1-405b", 12  # bytes a parameter: fp32 weight, mean, variance


def facts() -> dict[str, str | int | float]:
    """See ``lesson28.toml``."""
    between = DAYS * 86_400 / INTERRUPTIONS
    saving, few = Saving(between, WRITE, 0), Saving(between * GPUS / FEW, WRITE, 0)
    elements = total(MODELS[MODEL])
    return {
        "days": DAYS,
        "interruptions": INTERRUPTIONS,
        "gpus": f"{GPUS:,}",
        "between": f"{between / 3600:.2g}",
        "one": f"{between * GPUS / 3600 / 1000:.0f},000",
        "one_years": f"{between * GPUS / 86_400 / 365:.1f}",
        "write": f"{WRITE:g} s",
        "few": FEW,
        "few_every": f"{few.young / 3600:.2g}",
        "elements": ELEMENTS,
        "saved": SAVED,
        "loaded": LOADED,
        "saved_length": -(-ELEMENTS // SAVED),
        "loaded_length": -(-ELEMENTS // LOADED),
        "predict_answer": round(saving.young / 60, 1),
        "predict_tolerance": 0.1,
        "half": f"{saving.young / 60 / 2:.2g}",
        "parameters": f"{elements / 1e9:.4g}",
        "state": STATE,
        "calculate_1_answer": round(elements * STATE / 1e12, 2),
        "calculate_1_tolerance": 0.02,
        "calculate_2_answer": round(100 * (1 - saving.goodput(saving.young)), 1),
        "calculate_2_tolerance": 0.12,
        "lost_saving": f"{100 * WRITE / saving.young:.2g}%",
        "lost_again": f"{100 * saving.young / 2 / between:.2g}%",
    }
