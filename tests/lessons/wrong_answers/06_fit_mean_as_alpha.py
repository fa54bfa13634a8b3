# expects: fit: the mean time is taken for alpha
# finding: fit formula.part
# says: beta is right, alpha is not: fit([(1024, 1.23e-05), (2048, 1.31e-05), (4096, 1.52e-05), (8192, 1.88e-05), (16384, 2.71e-05)]) gives 1.7299999999999997e-05 for it, the library says 1.1175e-05.
from __future__ import annotations

from collections.abc import Sequence
from statistics import linear_regression


def ring_time(size: int, nbytes: float, alpha: float, beta: float) -> float:
    return 2 * (size - 1) * (alpha + nbytes / size * beta)


def bus_bandwidth(size: int, nbytes: float, seconds: float) -> float:
    algbw = nbytes / seconds / 1e9
    return algbw * 2 * (size - 1) / size


def fit(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    beta, _ = linear_regression(*zip(*points, strict=True))
    return sum(seconds for _, seconds in points) / len(points), beta
