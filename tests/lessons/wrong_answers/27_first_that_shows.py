# expects: hidden_gpus: the first number on which it shows
# finding: hidden_gpus scaling.hidden_gpus.first_shown
# says: This is the first number on which the exchange shows. Asked is the last on which it does not.
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
    return compute / (gpus * strong_time(gpus, compute, nbytes, alpha, beta))


def hidden_gpus(compute: float, nbytes: float, alpha: float, beta: float, limit: int) -> int:
    return 1 + max(n for n in range(1, limit + 1) if exchange(n, nbytes, alpha, beta) <= 2 / 3 * compute / n)


def fastest_gpus(compute: float, nbytes: float, alpha: float, beta: float, limit: int) -> int:
    return min(range(1, limit + 1), key=lambda n: strong_time(n, compute, nbytes, alpha, beta))
