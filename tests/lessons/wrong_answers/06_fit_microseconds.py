# expects: fit: alpha in microseconds
# finding: fit formula.part_times
# says: beta is right, but alpha is 10⁶ times what it should be: a unit, or a factor?
from __future__ import annotations

from collections.abc import Sequence
from statistics import linear_regression


def ring_time(size: int, nbytes: float, alpha: float, beta: float) -> float:
    return 2 * (size - 1) * (alpha + nbytes / size * beta)


def bus_bandwidth(size: int, nbytes: float, seconds: float) -> float:
    algbw = nbytes / seconds / 1e9
    return algbw * 2 * (size - 1) / size


def fit(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    beta, alpha = linear_regression(*zip(*points, strict=True))
    return alpha * 1e6, beta
