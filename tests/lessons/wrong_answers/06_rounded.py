# expects: ring_time: the time is rounded to microseconds
# finding: ring_time formula.rounded
# says: Your answers are right, but rounded to 6 decimal places. Return the number as it comes: whoever prints it may round.
from __future__ import annotations

from collections.abc import Sequence


def ring_time(size: int, nbytes: float, alpha: float, beta: float) -> float:
    return round(2 * (size - 1) * (alpha + nbytes / size * beta), 6)


def bus_bandwidth(size: int, nbytes: float, seconds: float) -> float:
    algbw = nbytes / seconds / 1e9
    return algbw * 2 * (size - 1) / size


def fit(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    mean_bytes = sum(nbytes for nbytes, _ in points) / len(points)
    mean_seconds = sum(seconds for _, seconds in points) / len(points)
    together = sum((nbytes - mean_bytes) * (seconds - mean_seconds) for nbytes, seconds in points)
    beta = together / sum((nbytes - mean_bytes) ** 2 for nbytes, _ in points)
    return mean_seconds - beta * mean_bytes, beta
