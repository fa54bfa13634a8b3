# expects: ring_time: alpha is counted 2n times instead of 2(n-1)
# finding: ring_time formula.ring_time.n_times
# says: α is paid 2n times. A chunk that walks round a ring of n ranks makes n−1 steps, twice: it need not come back to where it set out. So 2(n−1)·α.
from __future__ import annotations

from collections.abc import Sequence


def ring_time(size: int, nbytes: float, alpha: float, beta: float) -> float:
    return 2 * size * alpha + 2 * (size - 1) / size * nbytes * beta


def bus_bandwidth(size: int, nbytes: float, seconds: float) -> float:
    algbw = nbytes / seconds / 1e9
    return algbw * 2 * (size - 1) / size


def fit(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    mean_bytes = sum(nbytes for nbytes, _ in points) / len(points)
    mean_seconds = sum(seconds for _, seconds in points) / len(points)
    together = sum((nbytes - mean_bytes) * (seconds - mean_seconds) for nbytes, seconds in points)
    beta = together / sum((nbytes - mean_bytes) ** 2 for nbytes, _ in points)
    return mean_seconds - beta * mean_bytes, beta
