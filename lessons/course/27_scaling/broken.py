"""{{broken.file}}"""

from __future__ import annotations


def weak_time(gpus: int, compute: float, nbytes: float, alpha: float, beta: float) -> float:
    """{{broken.weak_time}}"""
    ring = 2 * (gpus - 1) * (alpha + nbytes / gpus * beta)
    # {{broken.overlap}}
    return max(compute, ring)


def strong_time(gpus: int, compute: float, nbytes: float, alpha: float, beta: float) -> float:
    """{{broken.strong_time}}"""
    # {{broken.share}}
    compute, nbytes = compute / gpus, nbytes / gpus
    ring = 2 * (gpus - 1) * (alpha + nbytes / gpus * beta)
    return compute + max(0.0, ring - 2 / 3 * compute)
