"""{{stub.file}}"""

from __future__ import annotations

from collections.abc import Sequence


def ring_time(size: int, nbytes: float, alpha: float, beta: float) -> float:
    """{{stub.ring_time}}"""
    # TODO: {{stub.ring_time_todo}}
    raise NotImplementedError


def bus_bandwidth(size: int, nbytes: float, seconds: float) -> float:
    """{{stub.bus_bandwidth}}"""
    # TODO: {{stub.bus_bandwidth_todo}}
    raise NotImplementedError


def fit(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """{{stub.fit}}"""
    # TODO: {{stub.fit_todo}}
    raise NotImplementedError
