"""The formulas of lesson 30: what a KV cache holds, and how long prompt and answer take."""

from __future__ import annotations

import math
from collections.abc import Mapping

from sim.planner.flops import components
from sim.planner.inference import CACHES, Serving, cache_per_token
from sim.planner.transformer import Transformer

from ..reference import Reference

_NAMES = {size: name for name, size in CACHES.items()}


def _cache_bytes(layers: int, heads: int, kv_heads: int, head: int, tokens: int, size: int) -> int:
    model = Transformer("gpt", layers, heads * head, heads, 1, 1, 1, kv_heads=kv_heads, head=head)
    return tokens * cache_per_token(model, Serving(cache=_NAMES[size]))


def _prompt_flops(parameters: int, layers: int, hidden: int, prompt: int) -> int:
    parts = components(Transformer("gpt", layers, hidden, 1, 1, 1, prompt), causal=True)
    return 2 * parameters * prompt + parts["scores"] + parts["values"]


def _decode_time(parameters: float, batch: int, cache: float, peak: float, bandwidth: float) -> float:
    return max(2 * parameters * batch / peak, (2 * parameters + batch * cache) / bandwidth)


def _critical_batch(parameters: float, cache: float, peak: float, bandwidth: float) -> float:
    gained = 2 * parameters / peak - cache / bandwidth
    return 2 * parameters / bandwidth / gained if gained > 0 else math.inf


INFERENCE: Mapping[str, Reference] = {
    "cache_bytes": Reference(
        examples=(
            (32, 32, 8, 128, 8192, 2),
            (32, 32, 32, 128, 4096, 2),
            (80, 64, 8, 128, 1, 1),
            (3, 6, 2, 5, 7, 4),
            (12, 12, 1, 64, 1000, 2),
        ),
        answer=_cache_bytes,
        mistakes={
            "inference.cache_bytes.all_heads": lambda n, a, k, d, s, e: 2 * n * a * d * s * e,
            "inference.cache_bytes.one_of_two": lambda n, a, k, d, s, e: n * k * d * s * e,
            "inference.cache_bytes.one_layer": lambda n, a, k, d, s, e: 2 * k * d * s * e,
            "inference.cache_bytes.one_head": lambda n, a, k, d, s, e: 2 * n * d * s * e,
            "inference.cache_bytes.no_width": lambda n, a, k, d, s, e: 2 * n * k * s * e,
            "inference.cache_bytes.one_token": lambda n, a, k, d, s, e: 2 * n * k * d * e,
            "inference.cache_bytes.elements": lambda n, a, k, d, s, e: 2 * n * k * d * s,
            "inference.cache_bytes.pairs": lambda n, a, k, d, s, e: 2 * n * k * d * s * s * e,
            "inference.cache_bytes.queries": lambda n, a, k, d, s, e: (2 * k + a) * n * d * s * e,
            "inference.cache_bytes.groups": lambda n, a, k, d, s, e: 2 * n * (a // k) * d * s * e,
            "inference.cache_bytes.scores": lambda n, a, k, d, s, e: n * (2 * k * d * s + a * s * s) * e,
        },
    ),
    "prompt_flops": Reference(
        examples=(
            (8_030_261_248, 32, 4096, 8192),
            (6_738_415_616, 32, 4096, 2),
            (1000, 2, 8, 16),
            (500, 3, 10, 100),
        ),
        answer=_prompt_flops,
        mistakes={
            "inference.prompt_flops.no_attention": lambda x, n, h, s: 2 * x * s,
            "inference.prompt_flops.whole_square": lambda x, n, h, s: 2 * x * s + 4 * n * s * s * h,
            "inference.prompt_flops.one_product": lambda x, n, h, s: 2 * x * s + n * s * s * h,
            "inference.prompt_flops.one_layer": lambda x, n, h, s: 2 * x * s + 2 * s * s * h,
            "inference.prompt_flops.linear": lambda x, n, h, s: 2 * x * s + 2 * n * s * h,
            "inference.prompt_flops.no_width": lambda x, n, h, s: 2 * x * s + 2 * n * s * s,
            "inference.prompt_flops.training": lambda x, n, h, s: 6 * x * s + 6 * n * s * s * h,
            "inference.prompt_flops.multiplications": lambda x, n, h, s: x * s + n * s * s * h,
            "inference.prompt_flops.one_token": lambda x, n, h, s: 2 * x + 4 * n * s * h,
            "inference.prompt_flops.attention_only": lambda x, n, h, s: 2 * n * s * s * h,
            "inference.prompt_flops.no_cache": lambda x, n, h, s: x * s * (s + 1) + 2 * n * s * s * h,
        },
    ),
    "decode_time": Reference(
        examples=(
            (8_030_261_248, 1, 1.0e9, 989.4e12, 3352e9),
            (8_030_261_248, 2048, 1.0e6, 989.4e12, 3352e9),
            (70_553_706_496, 32, 2.7e9, 2 * 989.4e12, 6704e9),
            (100.0, 50, 1.0, 10.0, 8.0),
            (100.0, 3, 40.0, 1000.0, 8.0),
            (100.0, 2, 1.0, 1.0, 8.0),
        ),
        answer=_decode_time,
        mistakes={
            "inference.decode_time.compute_only": lambda x, b, c, p, w: 2 * x * b / p,
            "inference.decode_time.memory_only": lambda x, b, c, p, w: (2 * x + b * c) / w,
            "inference.decode_time.sum": lambda x, b, c, p, w: 2 * x * b / p + (2 * x + b * c) / w,
            "inference.decode_time.least": lambda x, b, c, p, w: min(2 * x * b / p, (2 * x + b * c) / w),
            "inference.decode_time.no_cache": lambda x, b, c, p, w: max(2 * x * b / p, 2 * x / w),
            "inference.decode_time.one_cache": lambda x, b, c, p, w: max(2 * x * b / p, (2 * x + c) / w),
            "inference.decode_time.weights_each": lambda x, b, c, p, w: max(2 * x * b / p, b * (2 * x + c) / w),
            "inference.decode_time.one_sequence": lambda x, b, c, p, w: max(2 * x / p, (2 * x + b * c) / w),
            "inference.decode_time.elements": lambda x, b, c, p, w: max(2 * x * b / p, (x + b * c) / w),
            "inference.decode_time.multiplications": lambda x, b, c, p, w: max(x * b / p, (2 * x + b * c) / w),
            "inference.decode_time.training": lambda x, b, c, p, w: max(6 * x * b / p, (2 * x + b * c) / w),
            "inference.decode_time.exchanged": lambda x, b, c, p, w: max(2 * x * b / w, (2 * x + b * c) / p),
            "inference.decode_time.a_sequence": lambda x, b, c, p, w: _decode_time(x, b, c, p, w) / b,
        },
    ),
    "critical_batch": Reference(
        examples=(
            (8_030_261_248, 0.0, 989.4e12, 3352e9),
            (8_030_261_248, 2.0e7, 989.4e12, 3352e9),
            (8_030_261_248, 1.0e9, 989.4e12, 3352e9),
            (100.0, 1.0, 10.0, 8.0),
            (100.0, 170.0, 10.0, 8.0),
        ),
        answer=_critical_batch,
        mistakes={
            "inference.critical_batch.no_cache": lambda x, c, p, w: p / w,
            "inference.critical_batch.never_missing": lambda x, c, p, w: 2 * x / w / (2 * x / p - c / w),
            "inference.critical_batch.one_cache": lambda x, c, p, w: (2 * x + c) / w / (2 * x / p),
            "inference.critical_batch.cache_added": lambda x, c, p, w: 2 * x / w / (2 * x / p + c / w),
            "inference.critical_batch.upside_down": lambda x, c, p, w: (
                (2 * x / p - c / w) / (2 * x / w) if 2 * x / p > c / w else math.inf
            ),
            "inference.critical_batch.elements": lambda x, c, p, w: (
                x / w / (2 * x / p - c / w) if 2 * x / p > c / w else math.inf
            ),
            "inference.critical_batch.multiplications": lambda x, c, p, w: (
                2 * x / w / (x / p - c / w) if x / p > c / w else math.inf
            ),
            "inference.critical_batch.zero": lambda x, c, p, w: (
                2 * x / w / (2 * x / p - c / w) if 2 * x / p > c / w else 0.0
            ),
            "inference.critical_batch.whole": lambda x, c, p, w: (
                math.ceil(2 * x / w / (2 * x / p - c / w)) if 2 * x / p > c / w else math.inf
            ),
        },
    ),
}
