# expects: ring_time: a loop that never ends
# finding: ring_time formula.endless
# says: ring_time(4, 1048576, 1e-05, 1e-09) does not end: the calls were stopped after 5 seconds. Does the loop come nearer to its end in every round?
from __future__ import annotations

from collections.abc import Sequence


def ring_time(size: int, nbytes: float, alpha: float, beta: float) -> float:
    step, time = 0, 0.0
    while step != 2 * size - 1:
        time += alpha + nbytes / size * beta
        step += 2
    return time


def bus_bandwidth(size: int, nbytes: float, seconds: float) -> float:
    algbw = nbytes / seconds / 1e9
    return algbw * 2 * (size - 1) / size


def fit(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    mean_bytes = sum(nbytes for nbytes, _ in points) / len(points)
    mean_seconds = sum(seconds for _, seconds in points) / len(points)
    together = sum((nbytes - mean_bytes) * (seconds - mean_seconds) for nbytes, seconds in points)
    beta = together / sum((nbytes - mean_bytes) ** 2 for nbytes, _ in points)
    return mean_seconds - beta * mean_bytes, beta
