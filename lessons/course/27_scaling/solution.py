"""{{solution.file}}"""

from __future__ import annotations


def exchange(gpus: int, nbytes: float, alpha: float, beta: float) -> float:
    """{{solution.exchange}}"""
    return 2 * (gpus - 1) * (alpha + nbytes / gpus * beta)


def weak_time(gpus: int, compute: float, nbytes: float, alpha: float, beta: float) -> float:
    """{{solution.weak_time}}"""
    forward, backward = compute / 3, 2 * compute / 3
    return forward + max(backward, exchange(gpus, nbytes, alpha, beta))


def weak_efficiency(gpus: int, compute: float, nbytes: float, alpha: float, beta: float) -> float:
    """{{solution.weak_efficiency}}"""
    return compute / weak_time(gpus, compute, nbytes, alpha, beta)


def strong_time(gpus: int, compute: float, nbytes: float, alpha: float, beta: float) -> float:
    """{{solution.strong_time}}"""
    return weak_time(gpus, compute / gpus, nbytes, alpha, beta)


def strong_efficiency(gpus: int, compute: float, nbytes: float, alpha: float, beta: float) -> float:
    """{{solution.strong_efficiency}}"""
    return compute / (gpus * strong_time(gpus, compute, nbytes, alpha, beta))


def hidden_gpus(compute: float, nbytes: float, alpha: float, beta: float, limit: int) -> int:
    """{{solution.hidden_gpus}}"""
    return max(n for n in range(1, limit + 1) if exchange(n, nbytes, alpha, beta) <= 2 / 3 * compute / n)


def fastest_gpus(compute: float, nbytes: float, alpha: float, beta: float, limit: int) -> int:
    """{{solution.fastest_gpus}}"""
    return min(range(1, limit + 1), key=lambda n: strong_time(n, compute, nbytes, alpha, beta))
