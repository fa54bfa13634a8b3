# expects: decode_time: arithmetic only
# finding: decode_time inference.decode_time.compute_only
# says: This is the arithmetic alone. For one token all weights are read: compare with the bytes over the bandwidth.
from __future__ import annotations

import math


def cache_bytes(layers: int, heads: int, kv_heads: int, head: int, tokens: int, size: int) -> int:
    return 2 * layers * kv_heads * head * tokens * size


def prompt_flops(parameters: int, layers: int, hidden: int, prompt: int) -> int:
    attention = layers * 4 * prompt**2 * hidden // 2
    return 2 * parameters * prompt + attention


def decode_time(parameters: int, batch: int, cache: float, peak: float, bandwidth: float) -> float:
    return 2 * parameters * batch / peak


def critical_batch(parameters: int, cache: float, peak: float, bandwidth: float) -> float:
    gained = 2 * parameters / peak - cache / bandwidth
    return 2 * parameters / bandwidth / gained if gained > 0 else math.inf
