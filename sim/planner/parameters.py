"""How many parameters: of each part of a model, and of each rank of a layout.

A layer on one of t = TP ranks: what is split by columns or rows holds 1/t of it, with the bias of columns; the bias
behind a split by rows, norms and routers are held by all. Expert parallelism gives a rank E/EP whole experts, each
split over ETP ranks. Vocabulary and learned positions are split over TP, rounded up to whole rows.

::

    GPT     l (12 h² + 13 h) + (V + s) h + 2 h              of which attention 4 h², MLP 8 h² a layer
    Llama   l (2 h² + 2 h k d + 3 h f + 2 h) + 2 V h + h    k key-value heads of d elements

Checked against the models themselves, counted by their own library; see the tests.
"""

from __future__ import annotations

from dataclasses import dataclass

from .arithmetic import ceil_div, pick
from .layout import Layout
from .transformer import Transformer


@dataclass(frozen=True)
class Held:
    """Parameters on one rank: those that DP × CP ranks hold alike, and experts, which fewer ranks hold alike."""

    shared: int
    experts: int

    @property
    def total(self) -> int:
        return self.shared + self.experts


def attention(model: Transformer, tp: int = 1) -> int:
    """One layer's, on one of ``tp`` ranks; more ranks than key-value heads hold copies of these."""
    h, bias = model.hidden, int(model.bias)
    context = ceil_div(model.context, tp)
    project = context * h + bias * h
    if not model.kv_rank:
        columns = context + 2 * ceil_div(model.kv_heads, tp) * model.head
        return columns * (h + bias) + project + 2 * model.head * model.qk_norm
    queries = ceil_div(model.queries, tp)
    ask = h * model.q_rank + model.q_rank + model.q_rank * queries if model.q_rank else h * queries
    compress = h * (model.kv_rank + model.rope) + model.kv_rank
    return ask + compress + model.kv_rank * 2 * context + project


def mlp(model: Transformer, width: int, tp: int = 1) -> int:
    """An MLP of this width, on one of ``tp`` ranks; none for width 0."""
    if not width:
        return 0
    own, h, bias = ceil_div(width, tp), model.hidden, int(model.bias)
    return (2 + model.gated) * h * own + bias * ((1 + model.gated) * own + h)


def norms(model: Transformer) -> int:
    """One layer's two."""
    return 2 * norm(model)


def norm(model: Transformer) -> int:
    return model.hidden * (1 + model.bias)


def embedding(model: Transformer, tp: int = 1) -> int:
    """Vocabulary, learned positions; of an encoder also token types and a norm."""
    rows = ceil_div(model.vocab, tp) + ceil_div(model.positions, tp)
    return (rows + 2 * model.encoder) * model.hidden + model.encoder * norm(model)


def vocabulary(model: Transformer, tp: int = 1) -> int:
    return ceil_div(model.vocab, tp) * model.hidden


def last(model: Transformer) -> int:
    """What comes after the layers, without the output matrix: the last norm; of an encoder its pooler and heads."""
    h = model.hidden
    if not model.encoder:
        return norm(model)
    heads = h * h + h + norm(model) + model.vocab + 2 * h + 2  # transform, norm, bias of the logits, next sentence
    return h * h + h + (heads if model.output == "masked" else 0)


def parts(model: Transformer) -> dict[str, int]:
    """Every part of the whole model and its parameters; tied matrices are counted once.

    >>> from sim.planner.models import MODELS
    >>> sum(parts(MODELS["gpt2"]).values())
    124439808
    """
    sparse = model.layers - model.dense_layers if model.experts else 0
    found = {
        "embedding": embedding(model) - model.positions * model.hidden,
        "positions": model.positions * model.hidden,
        "attention": model.layers * attention(model),
        "mlp": (model.layers - sparse) * mlp(model, model.ffn),
        "experts": sparse * model.experts * mlp(model, model.expert_ffn),
        "shared experts": sparse * mlp(model, model.shared_ffn),
        "router": sparse * model.experts * model.hidden,
        "norms": model.layers * norms(model),
        "last norm" if not model.encoder else "heads": last(model),
        "output": vocabulary(model) if model.output == "untied" else 0,
    }
    if model.stated:
        found["not in the shape"] = model.stated - sum(found.values())
    return {name: number for name, number in found.items() if number}


def total(model: Transformer) -> int:
    """All parameters of the model."""
    return model.stated or sum(parts(model).values())


def active(model: Transformer) -> int:
    """Those that one token meets: all, or without the experts to which it is not sent."""
    sparse = model.layers - model.dense_layers if model.experts else 0
    return total(model) - sparse * (model.experts - model.top_k) * mlp(model, model.expert_ffn)


def matrices(model: Transformer) -> int:
    """N of 6 N D for one token: active parameters without tables that are only looked up."""
    table = model.positions * model.hidden + (vocabulary(model) if model.output == "untied" else 0)
    return active(model) - table


def on_stage(model: Transformer, layout: Layout, stage: int) -> Held:
    """What a rank of this pipeline stage holds, before ZeRO splits it.

    Args:
        stage: 0 to PP - 1.
    """
    tp, ep, etp = layout.tp, layout.ep, layout.expert_tp
    layers, dense = layout.layers_of(model, stage)
    sparse = pick(model.experts > 0, layers - dense, 0)
    shared = layers * (attention(model, tp) + norms(model)) + (layers - sparse) * mlp(model, model.ffn, tp)
    shared = shared + sparse * (mlp(model, model.shared_ffn, tp) + model.experts * model.hidden)
    experts = sparse * ceil_div(model.experts, ep) * mlp(model, model.expert_ffn, etp)
    first, end = layout.is_first(stage), layout.is_last(stage)
    tables = first * embedding(model, tp) + end * last(model)
    # a tied matrix is there twice where its two ends are on different ranks
    matrix = {"untied": end, "pooler": 0}.get(model.output, end * (1 - first)) * vocabulary(model, tp)
    beyond = parts(model).get("not in the shape", 0) if model.stated else 0
    return Held(shared + tables + matrix + beyond * layers // (model.layers * tp), experts)


def by_formula(model: Transformer, layout: Layout) -> float:
    """The rule of thumb for a rank of the first stage: l · 12 h² / (TP · PP) + (V + s) h / TP.

    It leaves out biases and norms. For the shape of GPT only (an MLP of width 4 h, as many key-value heads as heads).
    """
    blocks = model.layers * 12 * model.hidden**2 / (layout.tp * layout.pp)
    return blocks + (model.vocab + model.positions) * model.hidden / layout.tp
