"""The numbers of lesson 4: bytes of the ring and of lesson 3's rank 0, from proofs."""

from __future__ import annotations

from collectives.proof import prove
from collectives.registry import find
from sim.units import show_bytes

SIZE = 1 << 30
FEW, TWICE, CROWD, MANY = 8, 16, 32, 64


def facts() -> dict[str, str | int | float]:
    """See ``lesson04.toml``."""
    known: dict[str, str | int | float] = {
        "size": show_bytes(SIZE),
        "few": FEW,
        "twice": TWICE,
        "crowd": CROWD,
        "many": MANY,
    }
    ring, naive = find("reduce_scatter", "ring"), find("all_reduce", "naive")
    for name, ranks in (("4", 4), ("8", 8), ("crowd", CROWD)):
        proof = prove(ring, ranks)
        known[f"steps_{name}"] = proof.steps
        known[f"ring_{name}"] = show_bytes(SIZE * float(proof.sent[0]))
        known[f"naive_{name}"] = show_bytes(SIZE * float(prove(naive, ranks).sent[0]))
    few, many = (prove(ring, ranks).sent[0] for ranks in (FEW, MANY))
    return known | {
        "twice_steps": prove(ring, TWICE).steps,
        "few_share": str(few),
        "many_share": str(many),
        "predict_answer": float(100 * (many / few - 1)),
        "predict_tolerance": 0.02,
    }
