# expects: fit: the line goes through the origin: no alpha
# finding: fit formula.fit.origin
# says: This line goes through the origin: it says that a message of 0 bytes takes no time. Let it have an α: the slope comes from the distances to the mean, (b − b̄) and (t − t̄).
from __future__ import annotations

from collections.abc import Sequence


def ring_time(size: int, nbytes: float, alpha: float, beta: float) -> float:
    return 2 * (size - 1) * (alpha + nbytes / size * beta)


def bus_bandwidth(size: int, nbytes: float, seconds: float) -> float:
    algbw = nbytes / seconds / 1e9
    return algbw * 2 * (size - 1) / size


def fit(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    beta = sum(nbytes * seconds for nbytes, seconds in points) / sum(nbytes**2 for nbytes, _ in points)
    return 0.0, beta
