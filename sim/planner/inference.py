"""Serving: what the KV cache holds, and how long prompt and answer take.

A prompt of s tokens goes through the model at once (prefill): 2 N s operations and the attention's s², so arithmetic
decides. Then every new token (decode) goes through alone: 2 N operations a sequence, but all weights and all cached
keys and values are read for it, so memory bandwidth decides until the batch is large.

::

    KV cache     2 · layers · (key-value heads) · (head) · bytes     a token; MLA: its compressed form
    prefill      forward(s) / (TP · peak)    + all-reduces           a stage after the other
    decode       max(2 N B + attention / (TP · peak), (weights + cache) / (TP · bandwidth)) + all-reduces
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..chip import Chip
from .arithmetic import ceil_div
from .flops import forward
from .layout import Layout
from .parameters import active, on_stage
from .transformer import Transformer

# Shares of the data sheet that large kernels reach: matrix products (Narayanan et al. 2021, table 1: 44 to 52 % of a
# whole step, so more for its products alone) and reading memory (a copy by the STREAM rule on A100 and H100).
# Assumptions, not fits.
MATMUL_SHARE = 0.70
MEMORY_SHARE = 0.80
WEIGHTS = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "int4": 0.5}  # bytes of an element
CACHES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}

AllReduce = Callable[[int], float]


@dataclass(frozen=True)
class Serving:
    """batch: sequences at a time; prompt, answer: tokens; weights, cache: dtypes."""

    batch: int = 1
    prompt: int = 1024
    answer: int = 128
    weights: str = "bf16"
    cache: str = "bf16"


def cache_per_token(model: Transformer, serving: Serving) -> int:
    """Bytes that a token leaves in the KV cache of the whole model."""
    return model.layers * model.cached * CACHES[serving.cache]


def weights_on(model: Transformer, layout: Layout, serving: Serving) -> float:
    """Bytes of the weights on a GPU of the fullest stage."""
    return max(on_stage(model, layout, s).total for s in range(layout.pp)) * WEIGHTS[serving.weights]


def cache_of_layer(model: Transformer, layout: Layout, serving: Serving) -> int:
    """Bytes that a token leaves in one layer on a GPU: heads are split over TP, a compressed cache is not."""
    groups = ceil_div(model.kv_heads, layout.tp) * 2 * model.head
    return CACHES[serving.cache] * (model.cached if model.kv_rank else groups)


def cache_on(model: Transformer, layout: Layout, serving: Serving, length: int) -> int:
    """Bytes of the KV cache of one sequence on a GPU of the stage with most layers."""
    layers = max(layout.layers_of(model, stage)[0] for stage in range(layout.pp))
    return layers * length * cache_of_layer(model, layout, serving)


def working(model: Transformer, layout: Layout, serving: Serving) -> float:
    """Bytes of activations at the widest place of a prefill, and the logits of one token a sequence."""
    width = model.hidden + (1 + model.gated) * ceil_div(model.ffn, layout.tp)
    return serving.batch * (serving.prompt * width * 2 + ceil_div(model.vocab, layout.tp) * 4)


def prefill_flops(model: Transformer, serving: Serving) -> int:
    """All GPUs together; only the last token of each prompt needs logits."""
    found = forward(model, serving.batch, serving.prompt, causal=True)
    return sum(found.values()) - found["logits"] + found["logits"] // serving.prompt


def decode_flops(model: Transformer, batch: int, length: int) -> int:
    """One more token for each of ``batch`` sequences that are ``length`` long: 2 N and the attention to what is
    cached."""
    once = forward(model, batch, 1)
    attention = 2 * batch * model.layers * length * (model.queries + model.context)
    return sum(flops for name, flops in once.items() if name not in ("scores", "values")) + attention


def decode_bytes(model: Transformer, layout: Layout, serving: Serving, length: int) -> float:
    """What one step of a batch reads, on one GPU of each stage together: weights, of experts only those that the batch
    needs, and the cache."""
    met = 1 - (1 - model.top_k / model.experts) ** serving.batch if model.experts else 1  # some token goes to these
    stages = [on_stage(model, layout, stage) for stage in range(layout.pp)]
    weights = sum(held.shared + met * held.experts for held in stages) * WEIGHTS[serving.weights]
    return weights + serving.batch * length * model.layers * cache_of_layer(model, layout, serving)


@dataclass(frozen=True)
class Times:
    """Seconds. compute, memory, communication: of one pass through all stages; the slower of the first two counts."""

    compute: float
    memory: float
    communication: float

    @property
    def total(self) -> float:
        return max(self.compute, self.memory) + self.communication

    @property
    def bound(self) -> str:
        """What decides: compute, memory or communication."""
        slower = "compute" if self.compute >= self.memory else "memory"
        return slower if max(self.compute, self.memory) >= self.communication else "communication"


def prefill(model: Transformer, layout: Layout, serving: Serving, chip: Chip, all_reduce: AllReduce) -> Times:
    """The whole prompt of a batch, through one stage after the other."""
    speed = chip.speed(_computed_in(serving)) * MATMUL_SHARE * layout.tp
    read = decode_bytes(model, layout, serving, 0) / (chip.bandwidth * MEMORY_SHARE)
    return Times(
        prefill_flops(model, serving) / speed,
        read,
        _communication(model, layout, serving.batch * serving.prompt, all_reduce),
    )


def decode(
    model: Transformer, layout: Layout, serving: Serving, chip: Chip, length: int, all_reduce: AllReduce
) -> Times:
    """One token for each sequence of a batch, through one stage after the other."""
    speed = chip.speed(_computed_in(serving)) * MATMUL_SHARE * layout.tp
    read = decode_bytes(model, layout, serving, length) / (chip.bandwidth * MEMORY_SHARE)
    return Times(
        decode_flops(model, serving.batch, length) / speed,
        read,
        _communication(model, layout, serving.batch, all_reduce),
    )


def largest_batch(model: Transformer, layout: Layout, serving: Serving, chip: Chip) -> int:
    """Sequences of prompt and answer whose cache fits beside the weights."""
    length = serving.prompt + serving.answer
    each = cache_on(model, layout, serving, length) + working(model, layout, serving) / serving.batch
    return max(0, int((chip.memory - weights_on(model, layout, serving)) // max(1, each)))


def _computed_in(serving: Serving) -> str:
    """4-bit and 8-bit integer weights are unpacked, and multiplied in 16 bits."""
    return {"int8": "bf16", "int4": "bf16"}.get(serving.weights, serving.weights)


def _communication(model: Transformer, layout: Layout, count: int, all_reduce: AllReduce) -> float:
    """Two all-reduces a layer over TP, of 16-bit activations of ``count`` tokens."""
    if layout.tp == 1:
        return 0.0
    return 2 * model.layers * all_reduce(count * model.hidden * 2)


def two_n(model: Transformer) -> int:
    """2 N: the rule of thumb for a token."""
    return 2 * active(model)
