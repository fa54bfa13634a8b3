# expects: rings_of: a ring and its reverse counted as one
# finding: rings_of gpu_day.rings_of.one_way_round
# says: A ring and its reverse are two: each link carries both directions, and they use one each.
from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

Arc = tuple[int, int]


def busbw(ranks: int, nbytes: int, time_us: float) -> float:
    algbw = nbytes / (time_us * 1e-6) / 1e9
    return algbw * 2 * (ranks - 1) / ranks


def of_wire(time_us: float, wire_us: float) -> float:
    return wire_us / time_us


def ring_on_nccl(
    ranks: int, nbytes: int, launch: float, alpha: float, beta: float, gamma: float, channels: int, graph: bool
) -> float:
    part = nbytes / ranks / channels
    host, wire, adder = launch if graph else 0.0, 0.0, 0.0
    ready = [0.0] * channels
    for step in range(2 * (ranks - 1)):
        for channel in range(channels):
            host += 0.0 if graph else launch
            wire = max(host, wire, ready[channel]) + part * beta
            ready[channel] = wire + alpha
            if step < ranks - 1:
                ready[channel] = adder = max(ready[channel], adder) + part * gamma
    return max(ready)


def rings_of(links: Sequence[Sequence[int]]) -> int:
    gpus = range(len(links))
    orders = [(0, *rest) for rest in permutations(gpus[1:]) if rest <= rest[::-1]]
    rings = [tuple(zip(order, order[1:] + order[:1], strict=True)) for order in orders]

    def most(left: dict[Arc, int], rings: Sequence[tuple[Arc, ...]]) -> int:
        fit = [ring for ring in rings if all(left[arc] for arc in ring)]
        rest = [({arc: n - (arc in ring) for arc, n in left.items()}, fit[i:]) for i, ring in enumerate(fit)]
        return max((1 + most(*one) for one in rest), default=0)

    return most({(a, b): links[a][b] for a in gpus for b in gpus}, rings)


def is_faster(baseline: str, ratio: float, null: float) -> str:
    if baseline != "native" or abs(ratio - 1) <= abs(null - 1):
        return "unknown"
    return "yes" if ratio < 1 else "no"
