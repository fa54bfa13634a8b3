"""The numbers of lesson 2: what the busiest rank sends, as the prover counts it."""

from __future__ import annotations

from fractions import Fraction

from collectives.proof import prove
from collectives.registry import find

RANKS = 8
ONE_STEP = ("scatter", "gather", "all_gather", "reduce_scatter", "all_reduce", "all_to_all")


def _sent(collective: str, name: str = "direct") -> Fraction:
    """By the busiest rank, in buffers."""
    return max(prove(find(collective, name), RANKS).sent.values())


def facts() -> dict[str, str | int | float]:
    shares = {collective: _sent(collective) for collective in ONE_STEP}
    shares |= {collective: _sent(collective, "naive") for collective in ("broadcast", "reduce")}
    return {
        "ranks": RANKS,
        **{collective: f"{float(share):g}" for collective, share in shares.items()},
        "predict_answer": float(shares["reduce_scatter"] + shares["all_gather"]),
        "predict_tolerance": 0,
        "saving": f"{float(shares['all_reduce'] / (shares['reduce_scatter'] + shares['all_gather'])):g}",
    }
