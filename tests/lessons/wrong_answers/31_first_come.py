# expects: rings_of: rings as they come, each as often as it fits
# finding: rings_of gpu_day.rings_of.one_by_one
# says: You take rings as they come, and one that was taken may block two better ones. Try every one on what the others leave.
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
    left, count = [list(row) for row in links], 0
    for rest in permutations(range(1, len(links))):
        order = (0, *rest)
        arcs: list[Arc] = list(zip(order, order[1:] + order[:1], strict=True))
        while all(left[a][b] for a, b in arcs):
            count += 1
            for a, b in arcs:
                left[a][b] -= 1
    return count


def is_faster(baseline: str, ratio: float, null: float) -> str:
    if baseline != "native" or abs(ratio - 1) <= abs(null - 1):
        return "unknown"
    return "yes" if ratio < 1 else "no"
