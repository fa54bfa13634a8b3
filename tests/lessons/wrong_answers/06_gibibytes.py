# expects: bus_bandwidth: GiB/s (2**30) instead of decimal GB/s
# finding: bus_bandwidth formula.bus_bandwidth.gib
# says: These are GiB a second (2³⁰). Bandwidths are decimal, as nccl-tests prints them: 1 GB/s is 10⁹ bytes a second.
from __future__ import annotations

from collections.abc import Sequence


def ring_time(size: int, nbytes: float, alpha: float, beta: float) -> float:
    return 2 * (size - 1) * (alpha + nbytes / size * beta)


def bus_bandwidth(size: int, nbytes: float, seconds: float) -> float:
    algbw = nbytes / seconds / 2**30
    return algbw * 2 * (size - 1) / size


def fit(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    mean_bytes = sum(nbytes for nbytes, _ in points) / len(points)
    mean_seconds = sum(seconds for _, seconds in points) / len(points)
    together = sum((nbytes - mean_bytes) * (seconds - mean_seconds) for nbytes, seconds in points)
    beta = together / sum((nbytes - mean_bytes) ** 2 for nbytes, _ in points)
    return mean_seconds - beta * mean_bytes, beta
