"""Floating-point operations of a forward and a backward, by component. FLOPs are a count; FLOP/s are a rate.

A multiplication and an addition are two. For s tokens of one sample through a layer::

    qkv          2 s h (a d + 2 k d)     queries, keys and values; 6 s h² where all heads have their own
    scores       2 s² a d                every query times every key; half of them if only earlier tokens count
    softmax      3 s² a
    values       2 s² a d
    projection   2 s a d h
    dense        2 s (h f + f h)         or three matrices, or top_k experts with their router
    logits       2 s h V                 once

The backward costs twice the forward: one product for the input's gradient, one for the weights'.

What is counted differs from source to source. ``matmuls``: all matrix products, no softmax, no look-up in the embedding
(Megatron-LM, PaLM, nanoGPT). ``layers``: without logits, with softmax, as Hoffmann et al. (2022) did in their table A4.
``all``: the text of their appendix F, with the embedding as if it were a product: 2 s V h.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from .parameters import active, matrices
from .transformer import Transformer

Count: TypeAlias = Literal["matmuls", "layers", "all"]
COUNTS = ("matmuls", "layers", "all")
LEFT_OUT = {"matmuls": ("embeddings", "softmax"), "layers": ("embeddings", "logits"), "all": ()}
ATTENTION = ("scores", "softmax", "values")
BACKWARD = 2  # forwards that a backward costs


def components(model: Transformer, samples: int = 1, sequence: int = 0, causal: bool = False) -> dict[str, int]:
    """FLOPs of one forward, by component, all layers together.

    Args:
        samples: sequences, b; an array of them in floats, because 64-bit integers end at 9e18.
        sequence: tokens of each, s (0: the model's).
        causal: half of the scores, as kernels that skip the masked ones compute.
    """
    s = sequence or model.sequence
    tokens, h, layers = samples * s, model.hidden, model.layers
    sparse = layers - model.dense_layers if model.experts else 0
    seen = s // 2 if causal else s
    across = tokens * seen * layers
    matrices_of_mlp = 2 + model.gated
    wide = (layers - sparse) * model.ffn + sparse * (model.top_k * model.expert_ffn + model.shared_ffn)
    transform = 2 * tokens * h * h if model.output == "masked" else 0
    return {
        "embeddings": 2 * tokens * model.vocab * h,
        "qkv": 2 * tokens * layers * _qkv(model),
        "scores": 2 * across * model.queries,
        "softmax": 3 * across * model.heads,
        "values": 2 * across * model.context,
        "projection": 2 * tokens * layers * model.context * h,
        "dense": 2 * tokens * h * matrices_of_mlp * wide,
        "router": 2 * tokens * h * sparse * model.experts,
        "logits": 0 if model.output == "pooler" else 2 * tokens * h * model.vocab + transform,
    }


def forward(
    model: Transformer, samples: int = 1, sequence: int = 0, causal: bool = False, count: Count = "matmuls"
) -> dict[str, int]:
    """The same, with 0 for what is not counted.

    >>> from sim.planner.models import MODELS
    >>> sum(forward(MODELS["gpt2"]).values())
    291648307200
    """
    found = components(model, samples, sequence, causal)
    return {name: 0 if name in LEFT_OUT[count] else flops for name, flops in found.items()}


def training(forward_flops: dict[str, int]) -> int:
    """Forward and backward: the model FLOPs of a step, of which MFU is the share of the peak."""
    return (1 + BACKWARD) * sum(forward_flops.values())


def recomputed(forward_flops: dict[str, int], recompute: str) -> int:
    """What recompute adds: ``full`` one forward of all layers, ``selective`` one of the attention scores. With it they
    are the hardware FLOPs, of HFU."""
    if recompute == "none":
        return 0
    once = {name: flops for name, flops in forward_flops.items() if name not in ("embeddings", "logits")}
    return sum(flops for name, flops in once.items() if recompute == "full" or name in ATTENTION)


def six_nd(model: Transformer, tokens: int) -> int:
    """6 N D: N parameters that a token meets, D tokens."""
    return 6 * active(model) * tokens


def six_nd_of_matrices(model: Transformer, tokens: int) -> int:
    """The same without parameters that are only looked up: positions, and an embedding that is not the output's too."""
    return 6 * matrices(model) * tokens


def palm(model: Transformer, tokens: int, sequence: int = 0) -> int:
    """(6 N + 12 L H Q T) a token, N without positions: the estimate of Chowdhery et al. (2022), appendix B."""
    attention = 12 * model.layers * model.context * (sequence or model.sequence)
    return (6 * matrices(model) + attention) * tokens


def _qkv(model: Transformer) -> int:
    """Multiplications of a token and layer for queries, keys and values."""
    h = model.hidden
    if not model.kv_rank:
        return h * (model.queries + model.keys + model.values)
    ask = h * model.q_rank + model.q_rank * model.queries if model.q_rank else h * model.queries
    return ask + h * (model.kv_rank + model.rope) + model.kv_rank * 2 * model.context
