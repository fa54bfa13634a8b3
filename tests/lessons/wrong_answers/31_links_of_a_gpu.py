# expects: rings_of: the fewest links of any GPU
# finding: rings_of gpu_day.rings_of.least_degree
# says: This is a bound: no GPU has more links than that. Whether rings close is another question; five GPUs of a DGX-1V have links enough and no ring.
from __future__ import annotations

from collections.abc import Sequence

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
    return min(sum(row) for row in links)


def is_faster(baseline: str, ratio: float, null: float) -> str:
    if baseline != "native" or abs(ratio - 1) <= abs(null - 1):
        return "unknown"
    return "yes" if ratio < 1 else "no"
