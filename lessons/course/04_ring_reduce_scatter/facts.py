"""The numbers of lesson 4: bytes of the ring and of lesson 3's rank 0, from proofs."""

from __future__ import annotations

from collectives.cost import Machine, predict
from collectives.proof import prove
from collectives.registry import find
from collectives.schedule import Send
from sim.units import show_bytes

SIZE = 1 << 30
FEW, TWICE, CROWD, MANY = 8, 16, 32, 64
LINK = 25e9  # bytes a second
SOME_RANK, SOME_STEP = 3, 9


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
    steps = list(ring.steps(SOME_RANK, TWICE))
    sent = next(one.chunk for one in steps[SOME_STEP] if isinstance(one, Send))
    return known | {
        "link": f"{LINK / 1e9:g} GB/s",
        "chunk": show_bytes(SIZE / TWICE),
        "calculate_1_answer": predict(ring, TWICE, SIZE, Machine(alpha=0.0, beta=1 / LINK)) * 1e3,
        "calculate_1_tolerance": 0.02,
        "some_rank": SOME_RANK,
        "some_step": SOME_STEP,
        "calculate_2_answer": sent,
        "calculate_2_tolerance": 0,
        "twice_steps": prove(ring, TWICE).steps,
        "few_share": str(few),
        "many_share": str(many),
        "predict_answer": float(100 * (many / few - 1)),
        "predict_tolerance": 0.02,
    }
