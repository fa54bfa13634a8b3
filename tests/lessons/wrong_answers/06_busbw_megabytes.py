# expects: bus_bandwidth: MB/s instead of GB/s
# finding: bus_bandwidth formula.times_prefix
# says: Every answer is 1000 times the right one: is it in another unit, such as ms or µs for s, or MB for GB?
from __future__ import annotations

from collections.abc import Sequence


def ring_time(size: int, nbytes: float, alpha: float, beta: float) -> float:
    return 2 * (size - 1) * (alpha + nbytes / size * beta)


def bus_bandwidth(size: int, nbytes: float, seconds: float) -> float:
    return nbytes / seconds / 1e6 * 2 * (size - 1) / size


def fit(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    mean_bytes = sum(nbytes for nbytes, _ in points) / len(points)
    mean_seconds = sum(seconds for _, seconds in points) / len(points)
    together = sum((nbytes - mean_bytes) * (seconds - mean_seconds) for nbytes, seconds in points)
    beta = together / sum((nbytes - mean_bytes) ** 2 for nbytes, _ in points)
    return mean_seconds - beta * mean_bytes, beta
