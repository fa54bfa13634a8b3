"""What a layer keeps for its backward, in bytes of one microbatch.

With b samples of s tokens (s over CP), in 16 bits, on one of t = TP ranks; u = 1, or t with sequence parallelism::

                          norm    attention                             norm    MLP
    between (over u)      2sbh    2sbh input              sbh dropout   2sbh    2sbh input                   sbh dropout
    inside (over t)               2sbh each: q, k, v, output                    8sbh before and after GELU
    scores (over t)               5as²b: softmax 2, its dropout mask 1, its result 2

    sum                   sbh (10/u + 24/t + 5as/(ht))          with t = u = 1: sbh (34 + 5as/h)

Selective recompute drops the scores, full recompute keeps 2sbh, the layer's input. Flash attention keeps, in place of
the scores, one fp32 number a query and head. Grouped-query attention keeps fewer keys and values; SwiGLU keeps three
products of the width f: gate, up and result; without dropout there are no masks.

Source: Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", section 4 and table 2.
"""

from __future__ import annotations

from dataclasses import dataclass

from .arithmetic import ceil_div, most
from .layout import Layout
from .transformer import Transformer

MASK = 1  # bytes of an element of a dropout mask
LOG_SUM = 4  # bytes that flash attention keeps a query and head
LOGIT = 4  # bytes of a logit that the loss keeps: fp32


@dataclass(frozen=True)
class LayerActivations:
    """Bytes of one layer and microbatch on one rank. kept: until the backward, after recompute has dropped what it
    drops; whole: all that the layer's own backward needs, there for one layer at a time; scores: of these, the
    attention scores."""

    kept: float
    whole: float
    scores: float


def tokens(model: Transformer, layout: Layout) -> int:
    """Tokens of a microbatch on a rank."""
    return layout.microbatch * (model.sequence // layout.cp)


def scores(model: Transformer, layout: Layout) -> float:
    """Attention scores of one layer, or what flash attention keeps in their place."""
    rows = tokens(model, layout) * ceil_div(model.heads, layout.tp)
    if layout.flash:
        return rows * LOG_SUM
    each = layout.precision.activation * (1 + model.dropout) + MASK * model.dropout
    return rows * model.sequence * each


def attention(model: Transformer, layout: Layout) -> float:
    """The attention block without its norm and without scores."""
    size, kept_input = layout.precision.activation, layout.precision.matmul_input
    between = model.hidden * (kept_input + MASK * model.dropout)
    if model.kv_rank:  # what is compressed is kept before and after its norm
        between = between + 2 * size * (model.q_rank + model.kv_rank) + size * model.rope
    heads = ceil_div(model.queries + model.context * bool(model.kv_rank), layout.tp)
    groups = (model.keys - model.context * bool(model.kv_rank) + model.values) // model.kv_heads
    groups = groups * ceil_div(model.kv_heads, layout.tp)
    inside = size * (heads + groups) + kept_input * ceil_div(model.context, layout.tp)
    if model.qk_norm:
        inside = inside + size * (heads + groups // 2)
    return tokens(model, layout) * (between / layout.sequence_ranks + inside)


def mlp(model: Transformer, layout: Layout, width: int) -> float:
    """An MLP of this width, without its norm; nothing for width 0."""
    size, kept_input = layout.precision.activation, layout.precision.matmul_input
    between = model.hidden * (kept_input + MASK * model.dropout) * bool(width)
    inside = (size * (1 + model.gated) + kept_input) * ceil_div(width, layout.tp)
    return tokens(model, layout) * (between / layout.sequence_ranks + inside)


def experts(model: Transformer, layout: Layout) -> float:
    """The routed experts, with as many tokens for each: what was dispatched, inside, and what came out."""
    size, kept_input, etp = layout.precision.activation, layout.precision.matmul_input, layout.expert_tp
    routed = tokens(model, layout) * model.top_k / layout.tp  # without TP inside experts, ranks of TP share the tokens
    dispatched = model.hidden * (kept_input + size) * etp
    inside = (size * (1 + model.gated) + kept_input) * model.expert_ffn
    chances = tokens(model, layout) * model.experts * LOGIT / layout.sequence_ranks
    return routed * (dispatched + inside) + chances


def layer(model: Transformer, layout: Layout, sparse: bool = False) -> LayerActivations:
    """One layer; ``sparse``: with experts in place of its MLP.

    >>> from sim.planner.models import MODELS
    >>> gpt3 = MODELS["gpt3-175b"]
    >>> layer(gpt3, Layout(flash=False)).kept / (2048 * 12288)
    114.0
    """
    size, u = layout.precision.activation, layout.sequence_ranks
    input_bytes = tokens(model, layout) * model.hidden * size / u
    inside = mlp(model, layout, model.shared_ffn) + experts(model, layout) if sparse else mlp(model, layout, model.ffn)
    dropped = scores(model, layout)
    rest = 2 * input_bytes + attention(model, layout) + inside
    if layout.sp and not layout.regather:  # both gathered inputs stay, in place of this rank's share of them
        rest = rest + 2 * input_bytes * (layout.tp - 1)
    whole = rest + dropped
    kept = {"none": whole, "selective": whole if layout.flash else rest, "full": input_bytes}[layout.recompute]
    return LayerActivations(kept, whole, dropped)


def embedding(model: Transformer, layout: Layout) -> float:
    """Of the first stage: token numbers, and the mask of the dropout behind the embedding."""
    return tokens(model, layout) * (8 + MASK * model.dropout * model.hidden / layout.sequence_ranks)


def output(model: Transformer, layout: Layout) -> float:
    """Of the last stage: the input of the last norm and that of the output matrix."""
    return tokens(model, layout) * 2 * model.hidden * layout.precision.activation / layout.sequence_ranks


def logits(model: Transformer, layout: Layout) -> float:
    """Of the last stage: the loss keeps them in fp32, split over TP, and without a kernel of its own twice."""
    if model.output == "pooler":
        return tokens(model, layout) * 0
    return tokens(model, layout) * ceil_div(model.vocab, layout.tp) * LOGIT * (1 + layout.eager_loss)


def widest(model: Transformer, layout: Layout) -> int:
    """Elements of the largest matrix of a layer on a rank."""
    inside = (1 + model.gated) * model.hidden * ceil_div(model.ffn, layout.tp)
    return most(inside, model.hidden * ceil_div(model.context + model.keys + model.values, layout.tp))
