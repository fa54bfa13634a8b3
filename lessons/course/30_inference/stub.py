"""{{stub.file}}"""

from __future__ import annotations

import math


def cache_bytes(layers: int, heads: int, kv_heads: int, head: int, tokens: int, size: int) -> int:
    """{{stub.cache_bytes}}"""
    # TODO: {{stub.cache_bytes_todo}}
    raise NotImplementedError


def prompt_flops(parameters: int, layers: int, hidden: int, prompt: int) -> int:
    """{{stub.prompt_flops}}"""
    # TODO: {{stub.prompt_flops_todo}}
    raise NotImplementedError


def decode_time(parameters: int, batch: int, cache: float, peak: float, bandwidth: float) -> float:
    """{{stub.decode_time}}"""
    # TODO: {{stub.decode_time_todo}}
    raise NotImplementedError


def critical_batch(parameters: int, cache: float, peak: float, bandwidth: float) -> float:
    """{{stub.critical_batch}}"""
    # TODO: {{stub.critical_batch_todo}}
    raise NotImplementedError
