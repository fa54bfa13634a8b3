"""The numbers of lesson 2: what the busiest rank sends, as the prover counts it."""

from __future__ import annotations

from fractions import Fraction

from collectives.proof import prove
from collectives.registry import find
from sim.planner.models import find_model
from sim.planner.parameters import total

RANKS, CROWD = 8, 64
MODEL, PORT = "llama2-7b", 50e9  # bytes a second, in each direction
TOKENS, WIDTH = 4096, 7168  # of a rank with experts, in bf16
ONE_STEP = ("scatter", "gather", "all_gather", "reduce_scatter", "all_reduce", "all_to_all")


def _sent(collective: str, name: str = "direct", ranks: int = RANKS) -> Fraction:
    """By the busiest rank, in buffers."""
    return max(prove(find(collective, name), ranks).sent.values())


def facts() -> dict[str, str | int | float]:
    shares = {collective: _sent(collective) for collective in ONE_STEP}
    shares |= {collective: _sent(collective, "naive") for collective in ("broadcast", "reduce")}
    checkpoint, copies = 2 * total(find_model(MODEL)), _sent("broadcast", "naive", CROWD)
    return {
        "model": "Llama 2 7B",
        "parameters": f"{checkpoint / 2e9:.2f}",
        "crowd": CROWD,
        "port": f"{PORT / 1e9:g} GB/s",
        "copies": str(copies),
        "checkpoint": f"{checkpoint / 1e9:.1f} GB",
        "calculate_1_answer": float(copies * checkpoint) / PORT,
        "calculate_1_tolerance": 0.02,
        "tokens": f"{TOKENS:,}",
        "width": f"{WIDTH:,}",
        "calculate_2_answer": float(_sent("all_to_all") * 2 * TOKENS * WIDTH) / 1e6,
        "calculate_2_tolerance": 0.02,
        "ranks": RANKS,
        **{collective: f"{float(share):g}" for collective, share in shares.items()},
        "predict_answer": float(shares["reduce_scatter"] + shares["all_gather"]),
        "predict_tolerance": 0,
        "saving": f"{float(shares['all_reduce'] / (shares['reduce_scatter'] + shares['all_gather'])):g}",
    }
