"""The numbers of lesson 7: where the ring loses, from the simulator, and what the others take, from proofs."""

from __future__ import annotations

from collections.abc import Sequence

from collectives.cost import Machine, predict
from collectives.messages import unroll
from collectives.proof import prove
from collectives.registry import find
from collectives.schedule import Schedule
from sim.collective import simulate
from sim.presets import find_machine
from sim.units import show_bytes, show_time

SMALL, MIDDLE, LARGE = 1 << 10, 8 << 20, 1 << 30
NODES, LOCAL = 4, 8  # of the DGX
BIG_NODES, BUFFER = 8, 10e9  # of a problem to calculate, and bytes
NET = Machine(alpha=5e-6, beta=1 / 25e9)
HOSTS, A_HOST, PREDICTED = 2, 2, 4  # hosts on a slow wire; ranks of each, in the text and in the question
WIRE = "200 Mbit/s"  # what the machine `hosts` was measured on


def facts() -> dict[str, str | int | float]:
    """See ``lesson07.toml``."""
    ranks = NODES * LOCAL
    ring, doubling = find("all_reduce", "ring"), find("all_reduce", "recursive_doubling")
    hierarchical = find("all_reduce", f"hierarchical:local={LOCAL}")
    dgx = find_machine("dgx-h100")
    network = dgx.network(NODES)
    steps, fewer = (len(unroll(schedule, 0, ranks)) for schedule in (ring, doubling))
    whole, between = prove(hierarchical, ranks).sent[0], prove(ring, NODES).sent[0] / LOCAL

    def takes(schedule: Schedule, size: int) -> str:
        return show_time(simulate(schedule, network, size, dgx.costs).time_s)

    known: dict[str, str | int | float] = {
        "nodes": NODES,
        "local": LOCAL,
        "ranks": ranks,
        "small": show_bytes(SMALL),
        "middle": show_bytes(MIDDLE),
        "large": show_bytes(LARGE),
        "ring_small": takes(ring, SMALL),
        "doubling_small": takes(doubling, SMALL),
        "ring_large": takes(ring, LARGE),
        "doubling_large": takes(doubling, LARGE),
        "hierarchical_large": takes(hierarchical, LARGE),
        "ring_steps": steps,
        "doubling_steps": fewer,
        "saved_steps": steps - fewer,
        "quiz_right": str(between),
        "quiz_inside": str(whole - between),
        "quiz_flat": str(whole),
        "wire": WIRE,
        "hosts": HOSTS,
        "a_host": A_HOST,
        "predict_a_host": PREDICTED,
    }
    good, bad = (_on_hosts(A_HOST, order) for order in (None, _in_turn(A_HOST)))
    one, other = (_on_hosts(PREDICTED, order) for order in (None, _in_turn(PREDICTED)))
    big = BIG_NODES * LOCAL
    out = LOCAL * prove(ring, BIG_NODES).sent[0] / LOCAL  # of the buffer, by all cards of a node together
    more = prove(doubling, ranks).sent[0] - prove(ring, ranks).sent[0]
    saved = predict(ring, ranks, 0, NET) - predict(doubling, ranks, 0, NET)
    return known | {
        "net_alpha": show_time(NET.alpha),
        "net_link": f"{1 / NET.beta / 1e9:g} GB/s",
        "more_bytes": f"{float(more):g}",
        "calculate_1_answer": saved / (float(more) * NET.beta) / 1e6,
        "calculate_1_tolerance": 0.03,
        "big_nodes": BIG_NODES,
        "buffer": f"{BUFFER / 1e9:g} GB",
        "flat": f"{float(prove(ring, big).sent[0]) * BUFFER / 1e9:.1f} GB",
        "calculate_2_answer": float(out) * BUFFER / 1e9,
        "calculate_2_tolerance": 0.02,
        "good_order": show_time(good),
        "bad_order": show_time(bad),
        "bad_ring": ", ".join(map(str, _in_turn(A_HOST))),
        "predict_good": show_time(one),
        "predict_bad": show_time(other),
        "predict_answer": round(other / one, 2),
        "predict_tolerance": 0.05,
    }


def _in_turn(a_host: int) -> list[int]:
    """Ranks that are dealt out to the hosts in turn: the device of each."""
    return [host * a_host + place for place in range(a_host) for host in range(HOSTS)]


def _on_hosts(a_host: int, order: Sequence[int] | None) -> float:
    """Seconds of a ring in the order of the ranks, over a wire of 200 Mbit/s."""
    machine = find_machine(f"hosts,local={a_host}")
    network = machine.network(HOSTS, order=list(order) if order else None)
    return simulate(find("all_reduce", "ring"), network, MIDDLE, machine.costs).time_s
