# expects: strong_efficiency: the speed-up
# finding: strong_efficiency scaling.strong_efficiency.speedup
# says: This is the speed-up. Efficiency is that over the number of GPUs.
from __future__ import annotations


def exchange(gpus: int, nbytes: float, alpha: float, beta: float) -> float:
    return 2 * (gpus - 1) * (alpha + nbytes / gpus * beta)


def weak_time(gpus: int, compute: float, nbytes: float, alpha: float, beta: float) -> float:
    forward, backward = compute / 3, 2 * compute / 3
    return forward + max(backward, exchange(gpus, nbytes, alpha, beta))


def weak_efficiency(gpus: int, compute: float, nbytes: float, alpha: float, beta: float) -> float:
    return compute / weak_time(gpus, compute, nbytes, alpha, beta)


def strong_time(gpus: int, compute: float, nbytes: float, alpha: float, beta: float) -> float:
    return weak_time(gpus, compute / gpus, nbytes, alpha, beta)


def strong_efficiency(gpus: int, compute: float, nbytes: float, alpha: float, beta: float) -> float:
    return compute / strong_time(gpus, compute, nbytes, alpha, beta)


def hidden_gpus(compute: float, nbytes: float, alpha: float, beta: float, limit: int) -> int:
    return max(n for n in range(1, limit + 1) if exchange(n, nbytes, alpha, beta) <= 2 / 3 * compute / n)


def fastest_gpus(compute: float, nbytes: float, alpha: float, beta: float, limit: int) -> int:
    return min(range(1, limit + 1), key=lambda n: strong_time(n, compute, nbytes, alpha, beta))
