# expects: fit: a dict instead of two numbers
# finding: fit formula.pair_kind
# says: fit([(1024, 1.23e-05), (2048, 1.31e-05), (4096, 1.52e-05), (8192, 1.88e-05), (16384, 2.71e-05)]) gives {'alpha': 1.1175e-05, 'beta': 9.64749243951613e-10}, of type dict. Return the two numbers themselves, alpha first: (alpha, beta).
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
    return {"alpha": alpha, "beta": beta}
