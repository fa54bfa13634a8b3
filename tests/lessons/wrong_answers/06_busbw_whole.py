# expects: bus_bandwidth: cut to a whole number
# finding: bus_bandwidth formula.whole
# says: Your answers are cut or rounded to whole numbers: is there an int(), a round(), or // where / belongs?
from __future__ import annotations

from collections.abc import Sequence


def ring_time(size: int, nbytes: float, alpha: float, beta: float) -> float:
    return 2 * (size - 1) * (alpha + nbytes / size * beta)


def bus_bandwidth(size: int, nbytes: float, seconds: float) -> float:
    return int(nbytes / seconds / 1e9 * 2 * (size - 1) / size)


def fit(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    mean_bytes = sum(nbytes for nbytes, _ in points) / len(points)
    mean_seconds = sum(seconds for _, seconds in points) / len(points)
    together = sum((nbytes - mean_bytes) * (seconds - mean_seconds) for nbytes, seconds in points)
    beta = together / sum((nbytes - mean_bytes) ** 2 for nbytes, _ in points)
    return mean_seconds - beta * mean_bytes, beta
