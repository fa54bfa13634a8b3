"""{{stub.file}}"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def buckets(sizes: Sequence[int], cap: int) -> list[list[int]]:
    """{{stub.buckets}}"""
    # TODO: {{stub.buckets_todo}}
    raise NotImplementedError


def finish_time(seconds: Sequence[float], sizes: Sequence[int], cap: int, alpha: float, beta: float) -> float:
    """{{stub.finish_time}}"""
    # TODO: {{stub.finish_time_todo}}
    raise NotImplementedError


def best_cap(seconds: Sequence[float], sizes: Sequence[int], caps: Sequence[int], alpha: float, beta: float) -> int:
    """{{stub.best_cap}}"""
    # TODO: {{stub.best_cap_todo}}
    raise NotImplementedError


def hidden(events: Sequence[dict[str, Any]]) -> float:
    """{{stub.hidden}}"""
    # TODO: {{stub.hidden_todo}}
    raise NotImplementedError
