# expects: fit: yield instead of return
# finding: fit formula.generator
# says: fit([(1024, 1.23e-05), (2048, 1.31e-05), (4096, 1.52e-05), (8192, 1.88e-05), (16384, 2.71e-05)]) gives a generator: the function has a `yield` where it should `return`.
from __future__ import annotations

from collections.abc import Sequence


def ring_time(size: int, nbytes: float, alpha: float, beta: float) -> float:
    return 2 * (size - 1) * (alpha + nbytes / size * beta)


def bus_bandwidth(size: int, nbytes: float, seconds: float) -> float:
    return nbytes / seconds / 1e9 * 2 * (size - 1) / size


def fit(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    mean_bytes = sum(nbytes for nbytes, _ in points) / len(points)
    mean_seconds = sum(seconds for _, seconds in points) / len(points)
    together = sum((nbytes - mean_bytes) * (seconds - mean_seconds) for nbytes, seconds in points)
    beta = together / sum((nbytes - mean_bytes) ** 2 for nbytes, _ in points)
    yield mean_seconds - beta * mean_bytes
    yield beta
