"""The numbers of lesson 10: buckets of GPT-2 by two schedules, from proofs and the simulator."""

from __future__ import annotations

from collectives.proof import prove
from collectives.registry import find
from lessons.figures.backward import Backward
from parallel.buckets import assign
from sim.collective import simulate
from sim.presets import find_machine
from sim.units import show_bytes, show_time

RANKS = 16
BUCKET, SMALL = 25 << 20, 8 << 10
SHARES = (4, 3)  # rows of two ranks


def facts() -> dict[str, str | int | float]:
    """See ``lesson10.toml``."""
    ring, doubling, machine = (
        find("all_reduce", "ring"),
        find("all_reduce", "recursive_doubling"),
        find_machine("switch"),
    )
    network = machine.network(ranks=RANKS)
    times = {
        (name, size): simulate(schedule, network, nbytes, machine.costs).time_s
        for name, schedule in (("ring", ring), ("doubling", doubling))
        for size, nbytes in (("large", BUCKET), ("small", SMALL))
    }
    sizes, _ = Backward().parameters()
    count = len(assign(sizes, [0] * len(sizes), BUCKET))
    steps, few = prove(ring, RANKS).steps, prove(doubling, RANKS).steps
    fast, slow = SHARES
    return {
        "ranks": RANKS,
        "bucket": show_bytes(BUCKET),
        "small": show_bytes(SMALL),
        "count": count,
        "steps": steps,
        "few": few,
        **{f"{name}_{size}": show_time(time) for (name, size), time in times.items()},
        "sent": f"{float(prove(ring, RANKS).sent[0]):.3g}",
        "sent_few": f"{float(prove(doubling, RANKS).sent[0]):.3g}",
        "faster": f"{times['ring', 'small'] / times['doubling', 'small']:.2g}",
        "fast": fast,
        "slow": slow,
        "fast_factor": f"{2 * fast}/{fast + slow}",
        "slow_factor": f"{2 * slow}/{fast + slow}",
        "predict_answer": round(times["doubling", "large"] / times["ring", "large"], 2),
        "predict_tolerance": 0.1,
        "calculate_1_answer": count * steps,
        "calculate_1_tolerance": 0,
    }
