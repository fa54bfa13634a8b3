"""The numbers of lesson 5: what a ring moves, from proofs, and what a slow link does to it, from the simulator."""

from __future__ import annotations

from collectives.cost import Machine, predict
from collectives.proof import prove
from collectives.registry import find
from sim.collective import simulate
from sim.faults import Faults
from sim.planner.models import find_model
from sim.planner.parameters import total
from sim.presets import find_machine
from sim.units import show_bytes

SIZE = 1 << 30
CROWD = 32
SLOW_RANKS, SHARE = 4, 0.5
MODEL, LINK = "llama3-8b", 50e9  # bytes a second
BUCKET_RANKS = 64
BUCKET = 25 << 20  # torch.nn.parallel.DistributedDataParallel, bucket_cap_mb


def facts() -> dict[str, str | int | float]:
    """See ``lesson05.toml``."""
    known: dict[str, str | int | float] = {"size": show_bytes(SIZE), "crowd": CROWD, "slow_ranks": SLOW_RANKS}
    known |= {"bucket": show_bytes(BUCKET), "half_4": prove(find("reduce_scatter", "ring"), 4).steps}
    ring, naive = find("all_reduce", "ring"), find("all_reduce", "naive")
    for name, ranks in (("4", 4), ("8", 8), ("crowd", CROWD)):
        proof = prove(ring, ranks)
        known[f"steps_{name}"] = proof.steps
        known[f"ring_{name}"] = show_bytes(SIZE * float(proof.sent[0]))
        known[f"naive_{name}"] = show_bytes(SIZE * float(prove(naive, ranks).sent[0]))
    for ranks in (2, 8):  # tensors that go round as a whole: one a step
        known[f"whole_{ranks}"] = show_bytes(SIZE * prove(find("reduce_scatter", "ring"), ranks).steps)
    machine = find_machine("ring")
    whole = machine.network(ranks=SLOW_RANKS)
    slowed = Faults(slow={f"{whole.devices[0]}->{whole.devices[1]}": SHARE}).on(whole)
    normal, slow = (simulate(ring, network, SIZE, machine.costs).time_s for network in (whole, slowed))
    bucket, gradients = prove(ring, BUCKET_RANKS), 2 * total(find_model(MODEL))
    return known | {
        "bucket_ranks": BUCKET_RANKS,
        "bucket_steps": bucket.steps,
        "calculate_1_answer": float(BUCKET * bucket.sent[0] / bucket.steps) / (1 << 10),
        "calculate_1_tolerance": 0.001,
        "model": "Llama 3 8B",
        "parameters": f"{gradients / 2e9:.2f}",
        "gradients": f"{gradients / 1e9:.1f} GB",
        "sent": f"{float(gradients * bucket.sent[0]) / 1e9:.1f} GB",
        "link": f"{LINK / 1e9:g} GB/s",
        "calculate_2_answer": predict(ring, BUCKET_RANKS, gradients, Machine(alpha=0.0, beta=1 / LINK)),
        "calculate_2_tolerance": 0.02,
        "bandwidth": f"{whole.capacity[0] / 1e9:g} GB/s",
        "predict_answer": round(slow / normal, 3),
        "predict_tolerance": 0.03,
    }
