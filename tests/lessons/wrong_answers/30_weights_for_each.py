# expects: decode_time: the weights are read for every sequence
# finding: decode_time inference.decode_time.weights_each
# says: The weights are read once for the whole batch: that is what a batch is for.
from __future__ import annotations

import math


def cache_bytes(layers: int, heads: int, kv_heads: int, head: int, tokens: int, size: int) -> int:
    return 2 * layers * kv_heads * head * tokens * size


def prompt_flops(parameters: int, layers: int, hidden: int, prompt: int) -> int:
    attention = layers * 4 * prompt**2 * hidden // 2
    return 2 * parameters * prompt + attention


def decode_time(parameters: int, batch: int, cache: float, peak: float, bandwidth: float) -> float:
    arithmetic = 2 * parameters * batch / peak
    memory = batch * (2 * parameters + cache) / bandwidth
    return max(arithmetic, memory)


def critical_batch(parameters: int, cache: float, peak: float, bandwidth: float) -> float:
    gained = 2 * parameters / peak - cache / bandwidth
    return 2 * parameters / bandwidth / gained if gained > 0 else math.inf
