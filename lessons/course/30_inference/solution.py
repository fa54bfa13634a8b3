"""{{solution.file}}"""

from __future__ import annotations

import math


def cache_bytes(layers: int, heads: int, kv_heads: int, head: int, tokens: int, size: int) -> int:
    """{{solution.cache_bytes}}"""
    return 2 * layers * kv_heads * head * tokens * size


def prompt_flops(parameters: int, layers: int, hidden: int, prompt: int) -> int:
    """{{solution.prompt_flops}}"""
    attention = layers * 4 * prompt**2 * hidden // 2
    return 2 * parameters * prompt + attention


def decode_time(parameters: int, batch: int, cache: float, peak: float, bandwidth: float) -> float:
    """{{solution.decode_time}}"""
    arithmetic = 2 * parameters * batch / peak
    memory = (2 * parameters + batch * cache) / bandwidth
    return max(arithmetic, memory)


def critical_batch(parameters: int, cache: float, peak: float, bandwidth: float) -> float:
    """{{solution.critical_batch}}"""
    # {{solution.gained}}
    gained = 2 * parameters / peak - cache / bandwidth
    return 2 * parameters / bandwidth / gained if gained > 0 else math.inf
