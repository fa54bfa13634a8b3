# expects: prompt_flops: the whole square of attention
# finding: prompt_flops inference.prompt_flops.whole_square
# says: This is the whole square of attention. A token sees only those before it, so half of it is computed: 2·l·s²·h.
from __future__ import annotations

import math


def cache_bytes(layers: int, heads: int, kv_heads: int, head: int, tokens: int, size: int) -> int:
    return 2 * layers * kv_heads * head * tokens * size


def prompt_flops(parameters: int, layers: int, hidden: int, prompt: int) -> int:
    attention = layers * 4 * prompt**2 * hidden
    return 2 * parameters * prompt + attention


def decode_time(parameters: int, batch: int, cache: float, peak: float, bandwidth: float) -> float:
    arithmetic = 2 * parameters * batch / peak
    memory = (2 * parameters + batch * cache) / bandwidth
    return max(arithmetic, memory)


def critical_batch(parameters: int, cache: float, peak: float, bandwidth: float) -> float:
    gained = 2 * parameters / peak - cache / bandwidth
    return 2 * parameters / bandwidth / gained if gained > 0 else math.inf
