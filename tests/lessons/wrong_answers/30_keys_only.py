# expects: cache_bytes: keys without values
# finding: cache_bytes inference.cache_bytes.one_of_two
# says: Keys and values are two: 2 · layers · kv_heads · head elements a token.
from __future__ import annotations

import math


def cache_bytes(layers: int, heads: int, kv_heads: int, head: int, tokens: int, size: int) -> int:
    return layers * kv_heads * head * tokens * size


def prompt_flops(parameters: int, layers: int, hidden: int, prompt: int) -> int:
    attention = layers * 4 * prompt**2 * hidden // 2
    return 2 * parameters * prompt + attention


def decode_time(parameters: int, batch: int, cache: float, peak: float, bandwidth: float) -> float:
    arithmetic = 2 * parameters * batch / peak
    memory = (2 * parameters + batch * cache) / bandwidth
    return max(arithmetic, memory)


def critical_batch(parameters: int, cache: float, peak: float, bandwidth: float) -> float:
    gained = 2 * parameters / peak - cache / bandwidth
    return 2 * parameters / bandwidth / gained if gained > 0 else math.inf
