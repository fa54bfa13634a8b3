"""{{broken.file}}"""

from __future__ import annotations


def busbw(ranks: int, nbytes: int, time_us: float) -> float:
    """{{broken.busbw}}"""
    return nbytes / time_us / 1e3


def is_faster(baseline: str, ratio: float, null: float) -> str:
    """{{broken.is_faster}}"""
    # {{broken.noise}}
    if abs(ratio - 1) <= abs(null - 1):
        return "unknown"
    return "yes" if ratio < 1 else "no"
