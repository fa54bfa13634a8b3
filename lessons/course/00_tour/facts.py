"""The numbers of lesson 0: what a ring all-reduce sends, and what it takes on a DGX, from proofs and the simulator."""

from __future__ import annotations

from collectives.proof import prove
from collectives.registry import find
from sim.collective import simulate
from sim.presets import find_machine
from sim.units import show_bytes, show_time

RANKS, MANY, SIZE, MACHINE = 4, 32, 1 << 30, "dgx-h100"


def facts() -> dict[str, str | int | float]:
    """See ``lesson00.toml``."""
    ring, machine = find("all_reduce", "ring"), find_machine(MACHINE)
    proof, many = prove(ring, RANKS), prove(ring, MANY)
    sent = max(proof.sent.values())
    dgx = simulate(ring, machine.network(ranks=RANKS), SIZE, machine.costs)
    return {
        "ranks": RANKS,
        "many": MANY,
        "size": show_bytes(SIZE),
        "steps": proof.steps,
        "messages": proof.messages,
        "sent": str(sent),
        "sent_bytes": show_bytes(SIZE * float(sent)),
        "many_bytes": show_bytes(SIZE * float(max(many.sent.values()))),
        "naive_bytes": show_bytes(SIZE * float(max(prove(find("all_reduce", "naive"), MANY).sent.values()))),
        "dgx": show_time(dgx.time_s),
        "busbw": f"{dgx.busbw:.0f}",
        "predict_answer": float(SIZE * sent / (1 << 30)),
        "predict_tolerance": 0.0,
    }
