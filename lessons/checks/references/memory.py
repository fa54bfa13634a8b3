"""The formulas of lessons 13 to 16."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import torch

from parallel.precision import LossScale
from parallel.wire import Blocks
from sim.planner.flops import components, training
from sim.planner.transformer import Transformer

from ..reference import Reference

_DTYPES = {10: torch.float16, 7: torch.bfloat16}


def _spacing(value: float, bits: int, least: int) -> float:
    """From a number to the next one behind it, in torch's own bits."""
    here = torch.tensor(abs(value), dtype=_DTYPES[bits])
    behind = (here.view(torch.int16) + 1).view(here.dtype)
    return float(behind) - float(here)


def _exponent(value: float) -> float:
    return math.log2(abs(value))


def _loss_scale(overflows: Sequence[bool], start: float, interval: int) -> float:
    scale = LossScale(start, interval)
    for overflow in overflows:
        scale.update(overflow)
    return scale.value


def _scaler(
    up: float = 2.0,
    down: float = 0.5,
    reset: bool = True,
    piles_up: bool = False,
    late: int = 0,
    counts_all: bool = False,
) -> Callable[[Sequence[bool], float, int], float]:
    """A loss scaler with faults. reset: an overflow begins the count anew; piles_up: growing does not; late: so many
    steps after the interval; counts_all: a step with an overflow counts too."""

    def scaled(overflows: Sequence[bool], start: float, interval: int) -> float:
        scale, good = start, 0
        for overflow in overflows:
            if overflow:
                scale *= down
            good = 0 if overflow and reset else good + (counts_all or not overflow)
            if not overflow and good >= interval + late:
                scale, good = scale * up, good if piles_up else 0
        return scale

    return scaled


def _peak(layers: int, segments: int, inside: int, border: int) -> int:
    """At the backward of each segment: the inputs of those up to it, and all of the segment once more."""
    bounds = [layers * number // segments for number in range(segments + 1)]
    return max(
        number * border + (end - first) * (inside + border) for number, (first, end) in enumerate(pairwise(bounds))
    )


def _best(layers: int, inside: int, border: int) -> int:
    return min(range(1, layers + 1), key=lambda segments: _peak(layers, segments, inside, border))


def _longest(layers: int, segments: int) -> int:
    return -(-layers // segments)


_STACKS = ((16, 0, 100), (24, 1600, 100), (12, 300, 100), (30, 50, 10), (7, 10, 1000), (1, 64, 8), (48, 9, 3))


def _sent_bytes(elements: int, ranks: int, block: int) -> int:
    """The messages of a compressed reduce-scatter, as the library makes them."""
    return (ranks - 1) * len(Blocks(block).room(elements // ranks, torch.device("cpu")))


def _forward_seconds(layers: int, compute: float, transfer: float) -> float:
    """Layer by layer: what it keeps leaves when it has been computed, and what left before it has arrived."""
    computed = arrived = 0.0
    for _ in range(layers):
        computed += compute
        arrived = max(computed, arrived) + transfer
    return arrived


def _layer_flops(hidden: int) -> float:
    """Of one token in the matrices of one layer."""
    found = components(Transformer("", layers=1, hidden=hidden, heads=1, ffn=4 * hidden, vocab=1, sequence=1))
    return found["qkv"] + found["projection"] + found["dense"]


def _least_width(kept: float, bandwidth: float, peak: float) -> float:
    return kept * peak / bandwidth / _layer_flops(1)


def _least_tokens(moved: float, bandwidth: float, peak: float) -> float:
    """A forward costs two operations a parameter and token, and forward and backward three of them."""
    return moved * peak / bandwidth / training({"matrices": 2})


MEMORY: Mapping[str, Reference] = {
    "spacing": Reference(
        examples=(
            (1.0, 10, -14),
            (1.5, 10, -14),
            (0.1, 10, -14),
            (3000.0, 10, -14),
            (-3.0, 10, -14),
            (2.0**-14, 10, -14),
            (3e-5, 10, -14),
            (2.0**-24, 10, -14),
            (1.0, 7, -126),
            (300.0, 7, -126),
            (1e-39, 7, -126),
        ),
        answer=_spacing,
        mistakes={
            "memory.spacing.half": lambda v, b, e: 2.0 ** (max(math.floor(_exponent(v)), e) - b - 1),
            "memory.spacing.no_floor": lambda v, b, e: 2.0 ** (max(_exponent(v), e) - b),
            "memory.spacing.up": lambda v, b, e: 2.0 ** (max(math.ceil(_exponent(v)), e) - b),
            "memory.spacing.nearest": lambda v, b, e: 2.0 ** (max(round(_exponent(v)), e) - b),
            "memory.spacing.no_least": lambda v, b, e: 2.0 ** (math.floor(_exponent(v)) - b),
            "memory.spacing.everywhere": lambda v, b, e: 2.0**-b,
            "memory.spacing.smallest": lambda v, b, e: 2.0 ** (e - b),
            "memory.spacing.no_bits": lambda v, b, e: 2.0 ** max(math.floor(_exponent(v)), e),
            "memory.spacing.least_is_spacing": lambda v, b, e: 2.0 ** max(math.floor(_exponent(v)) - b, e),
            "memory.spacing.frexp": lambda v, b, e: 2.0 ** (max(math.frexp(v)[1], e) - b),
            "memory.spacing.natural": lambda v, b, e: 2.0 ** (max(math.floor(math.log(abs(v))), e) - b),
            "memory.spacing.share": lambda v, b, e: abs(v) * 2.0**-b,
        },
    ),
    "loss_scale": Reference(
        examples=(
            ([True, True, False], 1024.0, 3),
            ([False] * 3, 8.0, 3),
            ([False] * 7, 8.0, 3),
            ([False, False, True, False, False], 8.0, 3),
            ([False, False, False, True, False, False, False], 16.0, 3),
            ([False] * 4, 8.0, 1),
            ([], 64.0, 3),
            ([False, False, True, False, False, False, False], 64.0, 2),
            ([True, False, False, True, False], 64.0, 2),
        ),
        answer=_loss_scale,
        mistakes={
            "memory.loss_scale.no_reset": _scaler(reset=False),
            "memory.loss_scale.counts_all": _scaler(reset=False, counts_all=True),
            "memory.loss_scale.piles_up": _scaler(piles_up=True),
            "memory.loss_scale.late": _scaler(late=1),
            "memory.loss_scale.early": _scaler(late=-1),
            "memory.loss_scale.never_grows": _scaler(up=1.0),
            "memory.loss_scale.never_halves": _scaler(down=1.0),
            "memory.loss_scale.exchanged": _scaler(up=0.5, down=2.0),
            "memory.loss_scale.every_step": lambda o, s, i: s * 2.0 ** sum(-1 if one else 1 for one in o),
            "memory.loss_scale.tenfold": _scaler(up=10.0, down=0.1),
            "memory.loss_scale.back_to_start": lambda o, s, i: s,
        },
    ),
    "peak_bytes": Reference(
        examples=(
            (16, 4, 32, 8),
            (24, 24, 1600, 100),
            (24, 5, 1600, 100),
            (7, 3, 10, 1000),
            (12, 1, 300, 100),
            (10, 4, 50, 10),
            (1, 1, 64, 8),
        ),
        answer=_peak,
        mistakes={
            "memory.peak_bytes.borders_only": lambda n, k, i, b: k * b,
            "memory.peak_bytes.segment_only": lambda n, k, i, b: _longest(n, k) * (i + b),
            "memory.peak_bytes.border_twice": lambda n, k, i, b: k * b + _longest(n, k) * (i + b),
            "memory.peak_bytes.borders_forgotten": lambda n, k, i, b: k * b + _longest(n, k) * i,
            "memory.peak_bytes.one_layer": lambda n, k, i, b: k * b + i,
            "memory.peak_bytes.all_borders": lambda n, k, i, b: n * b + _longest(n, k) * i,
            "memory.peak_bytes.cut": lambda n, k, i, b: (k - 1) * b + n // k * (i + b),
            "memory.peak_bytes.fraction": lambda n, k, i, b: (k - 1) * b + n / k * (i + b),
            "memory.peak_bytes.nothing_dropped": lambda n, k, i, b: n * (i + b),
            "memory.peak_bytes.exchanged": lambda n, k, i, b: (_longest(n, k) - 1) * b + k * (i + b),
            "memory.peak_bytes.no_inside": lambda n, k, i, b: (k - 1 + _longest(n, k)) * b,
        },
    ),
    "best_segments": Reference(
        examples=_STACKS,
        answer=_best,
        mistakes={
            "memory.best_segments.root": lambda n, i, b: round(math.sqrt(n)),
            "memory.best_segments.root_up": lambda n, i, b: math.ceil(math.sqrt(n)),
            "memory.best_segments.smooth": lambda n, i, b: math.sqrt(n * (i + b) / b),
            "memory.best_segments.smooth_rounded": lambda n, i, b: min(n, round(math.sqrt(n * (i + b) / b))),
            "memory.best_segments.each": lambda n, i, b: n,
            "memory.best_segments.one": lambda n, i, b: 1,
            "memory.best_segments.bytes": lambda n, i, b: min(_peak(n, k, i, b) for k in range(1, n + 1)),
            "memory.best_segments.last": lambda n, i, b: min(range(n, 0, -1), key=lambda k: _peak(n, k, i, b)),
            "memory.best_segments.length": lambda n, i, b: _longest(n, _best(n, i, b)),
            "memory.best_segments.not_all": lambda n, i, b: min(range(1, n) or [1], key=lambda k: _peak(n, k, i, b)),
        },
    ),
    "sent_bytes": Reference(
        examples=((1024, 4, 128), (1 << 20, 8, 128), (1000, 4, 64), (64, 2, 8), (99, 3, 32), (4096, 16, 256)),
        answer=_sent_bytes,
        mistakes={
            "memory.sent_bytes.no_scales": lambda x, n, b: (n - 1) * x / n,
            "memory.sent_bytes.all_parts": lambda x, n, b: x + 4 * n * math.ceil(x / n / b),
            "memory.sent_bytes.all_reduce": lambda x, n, b: 2 * (n - 1) * (x / n + 4 * math.ceil(x / n / b)),
            "memory.sent_bytes.fp32": lambda x, n, b: (n - 1) * x / n * 4,
            "memory.sent_bytes.one_byte_scales": lambda x, n, b: (n - 1) * (x / n + math.ceil(x / n / b)),
            "memory.sent_bytes.half_scales": lambda x, n, b: (n - 1) * (x / n + 2 * math.ceil(x / n / b)),
            "memory.sent_bytes.one_scale": lambda x, n, b: (n - 1) * (x / n + 4),
            "memory.sent_bytes.whole": lambda x, n, b: (n - 1) * (x + 4 * math.ceil(x / b)),
            "memory.sent_bytes.cut": lambda x, n, b: (n - 1) * (x // n + 4 * (x // n // b)),
            "memory.sent_bytes.smooth": lambda x, n, b: (n - 1) * (x / n) * (1 + 4 / b),
            "memory.sent_bytes.one_part": lambda x, n, b: x / n + 4 * math.ceil(x / n / b),
        },
    ),
    "forward_seconds": Reference(
        examples=((4, 3.0, 2.0), (4, 2.0, 3.0), (1, 5.0, 7.0), (10, 1.5, 1.5), (96, 0.0075, 0.0156), (3, 0.0, 2.0)),
        answer=_forward_seconds,
        mistakes={
            "memory.forward_seconds.one_by_one": lambda n, c, t: n * (c + t),
            "memory.forward_seconds.longer": lambda n, c, t: n * max(c, t),
            "memory.forward_seconds.all_hidden": lambda n, c, t: n * c,
            "memory.forward_seconds.last_hidden": lambda n, c, t: n * c + t,
            "memory.forward_seconds.never_waits": lambda n, c, t: c + n * t,
            "memory.forward_seconds.one_more": lambda n, c, t: c + t + n * max(c, t),
            "memory.forward_seconds.no_first": lambda n, c, t: t + n * max(c, t),
            "memory.forward_seconds.shorter": lambda n, c, t: c + t + (n - 1) * min(c, t),
        },
    ),
    "least_width": Reference(
        examples=((34, 55e9, 989.4e12), (2, 55e9, 989.4e12), (34, 25e9, 312e12), (10, 1.0, 24.0), (18, 450e9, 2.5e15)),
        answer=_least_width,
        mistakes={
            "memory.least_width.parameters": lambda k, b, p: k * p / b / 12,
            "memory.least_width.backward": lambda k, b, p: k * p / b / 72,
            "memory.least_width.mlp": lambda k, b, p: k * p / b / 16,
            "memory.least_width.attention": lambda k, b, p: k * p / b / 8,
            "memory.least_width.no_flops": lambda k, b, p: k * p / b,
            "memory.least_width.upside_down": lambda k, b, p: 24 * b / (k * p),
            "memory.least_width.multiplied": lambda k, b, p: 24 * k * p / b,
            "memory.least_width.root": lambda k, b, p: math.sqrt(k * p / b / 24),
            "memory.least_width.exchanged": lambda k, b, p: k * b / p / 24,
        },
    ),
    "least_tokens": Reference(
        examples=((2, 55e9, 989.4e12), (4, 55e9, 989.4e12), (2, 25e9, 312e12), (12, 1.0, 6.0), (16, 450e9, 2.5e15)),
        answer=_least_tokens,
        mistakes={
            "memory.least_tokens.forward": lambda m, b, p: m * p / b / 2,
            "memory.least_tokens.backward": lambda m, b, p: m * p / b / 4,
            "memory.least_tokens.recompute": lambda m, b, p: m * p / b / 8,
            "memory.least_tokens.additions": lambda m, b, p: m * p / b / 3,
            "memory.least_tokens.no_flops": lambda m, b, p: m * p / b,
            "memory.least_tokens.upside_down": lambda m, b, p: 6 * b / (m * p),
            "memory.least_tokens.multiplied": lambda m, b, p: 6 * m * p / b,
            "memory.least_tokens.exchanged": lambda m, b, p: m * b / p / 6,
        },
    ),
}
