"""The numbers of lesson 17: bytes of the stages, and elements sent, from the library's formulas."""

from __future__ import annotations

import math

from parallel.formulas import MIXED, elements_sent, state_bytes
from sim.chip import CHIPS
from sim.planner.models import MODELS
from sim.planner.parameters import total
from sim.units import show_bytes

PARAMETERS = 7_500_000_000  # of the table in the paper
CROWDS = (1, 8, 64, 1024)
RANKS, MICROBATCHES = 8, 8
PIECES, COPIES = 0.6, 0.8  # norms of the third question
SMALL, ROOM = "gpt2-xl", 8e9
BIG, BIG_RANKS = "llama3-8b", 16


def _gb(nbytes: float) -> str:
    return f"{nbytes / 1e9:.3g} GB"


def facts() -> dict[str, str | int | float]:
    """See ``lesson17.toml``."""
    known: dict[str, str | int | float] = {
        "x": f"{PARAMETERS / 1e9:g}",
        "ranks": RANKS,
        "few": CROWDS[1],
        "some": CROWDS[2],
        "many": CROWDS[3],
        "all": f"{MIXED.total:g}",
        "k": f"{MIXED.optimizer:g}",
        "whole": _gb(state_bytes(PARAMETERS).total),
        "states": _gb(state_bytes(PARAMETERS).optimizer),
        "h100": show_bytes(CHIPS["h100"].memory),
        "microbatches": MICROBATCHES,
        "rest_1": _gb(PARAMETERS * (MIXED.parameters + MIXED.gradients)),
        "rest_2": _gb(PARAMETERS * MIXED.parameters),
    }
    for stage in range(4):
        for ranks in CROWDS:
            known[f"stage_{stage}_{ranks}"] = _gb(state_bytes(PARAMETERS, ranks, stage).total)
    sent = [elements_sent(PARAMETERS, RANKS, stage, MICROBATCHES).total for stage in range(3)]
    square = PIECES**2 + COPIES**2
    xl, big = total(MODELS[SMALL]), total(MODELS[BIG])
    left = ROOM - xl * (MIXED.parameters + MIXED.gradients)
    return known | {
        "predict_answer": sent[2] / sent[1],
        "predict_tolerance": 0.02,
        "pieces": PIECES,
        "copies": COPIES,
        "norm_right": f"{math.sqrt(square):.2f}",
        "norm_counted": f"{math.sqrt(PIECES**2 + RANKS * COPIES**2):.2f}",
        "norm_all": f"{math.sqrt(RANKS * square):.2f}",
        "norm_added": f"{PIECES + COPIES:.2f}",
        "xl": f"{xl / 1e9:.4g}",
        "room": _gb(ROOM),
        "calculate_1_answer": math.ceil(xl * MIXED.optimizer / left),
        "calculate_1_tolerance": 0,
        "xl_rest": _gb(xl * (MIXED.parameters + MIXED.gradients)),
        "xl_states": _gb(xl * MIXED.optimizer),
        "xl_left": _gb(left),
        "big": f"{big / 1e9:.4g}",
        "big_ranks": BIG_RANKS,
        "calculate_2_answer": round(state_bytes(big, BIG_RANKS, 2).total / 1e9, 2),
        "calculate_2_tolerance": 0.02,
    }
