"""{{broken.file}}"""

from __future__ import annotations


def cache_bytes(layers: int, heads: int, kv_heads: int, head: int, tokens: int, size: int) -> int:
    """{{broken.cache_bytes}}"""
    # {{broken.width}}
    hidden = heads * head
    return 2 * layers * hidden * tokens * size


def decode_time(parameters: int, batch: int, cache: float, peak: float, bandwidth: float) -> float:
    """{{broken.decode_time}}"""
    # {{broken.operations}}
    return 2 * parameters * batch / peak
