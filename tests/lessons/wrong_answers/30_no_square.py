# expects: prompt_flops: 2 N a token and nothing else
# finding: prompt_flops inference.prompt_flops.no_attention
# says: Attention over the prompt is missing: 2·l·s²·h.
from __future__ import annotations

import math


def cache_bytes(layers: int, heads: int, kv_heads: int, head: int, tokens: int, size: int) -> int:
    return 2 * layers * kv_heads * head * tokens * size


def prompt_flops(parameters: int, layers: int, hidden: int, prompt: int) -> int:
    return 2 * parameters * prompt


def decode_time(parameters: int, batch: int, cache: float, peak: float, bandwidth: float) -> float:
    arithmetic = 2 * parameters * batch / peak
    memory = (2 * parameters + batch * cache) / bandwidth
    return max(arithmetic, memory)


def critical_batch(parameters: int, cache: float, peak: float, bandwidth: float) -> float:
    gained = 2 * parameters / peak - cache / bandwidth
    return 2 * parameters / bandwidth / gained if gained > 0 else math.inf
