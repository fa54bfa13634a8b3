"""The numbers of lesson 6: a ring on a laptop and on a DGX, from the simulator, and bandwidths from the model."""

from __future__ import annotations

from collectives.contract import contract_of
from collectives.cost import LOOPBACK, Machine, predict
from collectives.proof import prove
from collectives.registry import find
from sim.collective import simulate
from sim.presets import find_machine
from sim.units import show_bytes, show_time

SMALL, MIDDLE, LARGE = 1 << 10, 1 << 20, 1 << 30
LAPTOP_RANKS, DGX_RANKS, CROWD = 4, 8, 64
ALGBW, LINK = 200.0, 450.0  # GB/s, of the first question
NET = Machine(alpha=5e-6, beta=1 / 25e9)  # a cluster, of a problem to calculate
NET_SIZE, NET_RANKS = 64 << 10, 16
LOG_SIZE, LOG_SECONDS = 256 << 20, 1.3e-3  # a line of nccl-tests
FEW, MANY = 64, 128  # ranks, of the second


def facts() -> dict[str, str | int | float]:
    """See ``lesson06.toml``."""
    ring, laptop, dgx = find("all_reduce", "ring"), find_machine("laptop"), find_machine("dgx-h100")
    small, middle = (
        simulate(ring, laptop.network(ranks=LAPTOP_RANKS), size, laptop.costs).time_s for size in (SMALL, MIDDLE)
    )
    on_dgx = dgx.network()
    alpha, beta = dgx.parameters["latency"][0], 1 / dgx.parameters["nvlink"]
    known: dict[str, str | int | float] = {
        "small": show_bytes(SMALL),
        "middle": show_bytes(MIDDLE),
        "large": show_bytes(LARGE),
        "times_less": MIDDLE // SMALL,
        "laptop_ranks": LAPTOP_RANKS,
        "laptop_small": show_time(small),
        "laptop_middle": show_time(middle),
        "laptop_bend": show_bytes((LOOPBACK.alpha + LOOPBACK.overhead) / LOOPBACK.beta),
        "alpha": show_time(alpha),
        "beta": f"1/({1 / beta / 1e9:g} GB/s)",
        "dgx_bend": show_bytes(alpha / beta),
        "dgx_ranks": DGX_RANKS,
        "crowd": CROWD,
        "dgx_messages": prove(ring, DGX_RANKS).steps,
        "quiz_few": FEW,
        "quiz_many": MANY,
        "quiz_few_steps": len(list(ring.steps(0, FEW))),
        "quiz_many_steps": len(list(ring.steps(0, MANY))),
        "dgx_middle": show_time(simulate(ring, on_dgx, MIDDLE, dgx.costs).time_s),
    }
    for name, ranks in (("2", 2), ("8", 8), ("crowd", CROWD)):
        seconds = predict(ring, ranks, LARGE, Machine(alpha, beta))
        algbw = LARGE / seconds / 1e9
        known[f"time_{name}"] = show_time(seconds)
        known[f"algbw_{name}"] = f"{algbw:.4g} GB/s"
        known[f"busbw_{name}"] = f"{algbw * contract_of('all_reduce').factor(ranks):.4g} GB/s"
    factor = contract_of("all_reduce").factor(DGX_RANKS)
    net = predict(ring, NET_RANKS, NET_SIZE, NET)
    latency = predict(ring, NET_RANKS, 0, NET)
    share = contract_of("all_reduce").factor(DGX_RANKS) * ALGBW / LINK
    return known | {
        "net_alpha": show_time(NET.alpha),
        "net_link": f"{1 / NET.beta / 1e9:g} GB/s",
        "net_size": show_bytes(NET_SIZE),
        "net_ranks": NET_RANKS,
        "net_messages": prove(ring, NET_RANKS).steps,
        "net_chunk": show_bytes(NET_SIZE / NET_RANKS),
        "net_latency": show_time(latency),
        "net_bytes": show_time(net - latency),
        "calculate_1_answer": net * 1e6,
        "calculate_1_tolerance": 0.01,
        "log_size": show_bytes(LOG_SIZE),
        "log_time": show_time(LOG_SECONDS),
        "log_algbw": f"{LOG_SIZE / LOG_SECONDS / 1e9:.4g} GB/s",
        "log_factor": f"{factor:g}",
        "calculate_2_answer": factor * LOG_SIZE / LOG_SECONDS / 1e9,
        "calculate_2_tolerance": 0.02,
        "quiz_algbw": f"{ALGBW:g} GB/s",
        "quiz_link": f"{LINK:g} GB/s",
        "quiz_busbw": f"{contract_of('all_reduce').factor(DGX_RANKS) * ALGBW:g} GB/s",
        "quiz_right": f"{share:.0%}",
        "quiz_algbw_share": f"{ALGBW / LINK:.0%}",
        "quiz_half_share": f"{contract_of('all_gather').factor(DGX_RANKS) * ALGBW / LINK:.0%}",
        "predict_answer": round(simulate(ring, on_dgx, SMALL, dgx.costs).time_s * 1e6, 1),
        "predict_tolerance": 0.15,  # the formula alone, without what starting a kernel takes, is near enough
    }
