# expects: critical_batch: without caches
# finding: critical_batch inference.critical_batch.no_cache
# says: The caches are missing: they grow with the batch as the arithmetic does, so memory falls behind later, or never.
from __future__ import annotations


def cache_bytes(layers: int, heads: int, kv_heads: int, head: int, tokens: int, size: int) -> int:
    return 2 * layers * kv_heads * head * tokens * size


def prompt_flops(parameters: int, layers: int, hidden: int, prompt: int) -> int:
    attention = layers * 4 * prompt**2 * hidden // 2
    return 2 * parameters * prompt + attention


def decode_time(parameters: int, batch: int, cache: float, peak: float, bandwidth: float) -> float:
    arithmetic = 2 * parameters * batch / peak
    memory = (2 * parameters + batch * cache) / bandwidth
    return max(arithmetic, memory)


def critical_batch(parameters: int, cache: float, peak: float, bandwidth: float) -> float:
    return peak / bandwidth
