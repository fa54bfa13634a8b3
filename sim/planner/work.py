"""What a rank does for one microbatch: seconds of a layer, of the embedding and of the output, by kind.

::

    forward          norm ─ qkv ─ attention ─ projection ─ (sum over TP) ─ norm ─ MLP ─ (sum over TP)
    backward, input  the same from right to left: one product where the forward has one, attention 2.5 times with flash
    backward, weight one product a matrix; it needs nothing from elsewhere, so a schedule may put it off
    recompute        none; the attention scores; or the forward of the whole layer with its communication

A layer depends on few numbers of a plan, TP, CP, EP and the microbatch: a search computes each combination once
(:func:`layer_work`) and hands it to all plans that share it (:meth:`Work.take`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from . import links
from .activations import tokens
from .arithmetic import ceil_div, most, pick
from .constants import Software
from .hardware import Hardware
from .kernels import product, traffic
from .layout import Layout
from .transformer import Transformer

LAUNCHES = 18  # kernels of a layer's forward; twice as many in its backward
FLASH_BACKWARD = 2.5  # of the forward's arithmetic: five products in place of two
RETURN = 1.6  # bytes that elementwise kernels move in the backward, of those in the forward
# Bytes a logit, of which its product's own are no part: to fp32 (6), its log-softmax (8), the gradients of both picks
# (4 + 12), back to 16 bits (6)
LOSS = 36


@dataclass(frozen=True)
class Work:
    """Seconds of one microbatch: of one layer, or of what its fields say.

    forward, input, weight: computing. attention: the part of ``forward`` that is attention itself. tp, cp, ep:
    communication that adds to the forward; tp_back, cp_back, ep_back: to the backward. output, output_back: logits and
    loss on the last stage; embedding: on the first.
    """

    forward: float
    input: float
    weight: float
    attention: float
    tp: float
    tp_back: float
    cp: float
    cp_back: float
    ep: float
    ep_back: float
    output: float
    output_input: float
    output_weight: float
    embedding: float

    def take(self, index: Any) -> Work:
        """Of fields that are arrays, these entries."""
        return Work(*(getattr(self, field.name)[index] for field in fields(self)))


@dataclass(frozen=True)
class _Cost:
    """Seconds of forward, and of the gradients of input and weights."""

    forward: float
    input: float
    weight: float

    def __add__(self, other: _Cost) -> _Cost:
        return _Cost(self.forward + other.forward, self.input + other.input, self.weight + other.weight)

    def __mul__(self, times: float) -> _Cost:
        return _Cost(self.forward * times, self.input * times, self.weight * times)


@dataclass(frozen=True)
class _Pricer:
    """Kernels of this layout's layer on this GPU."""

    model: Transformer
    layout: Layout
    hardware: Hardware
    software: Software

    def product(self, m: int, n: int, k: int, batch: int = 1, dtype: str = "") -> float:
        dtype = dtype or self.layout.precision.compute
        return product(m, n, k, self.hardware.chip, self.software, batch, dtype)

    def moved(self, nbytes: float) -> float:
        return traffic(nbytes, self.hardware.chip, self.software)

    def linear(self, m: int, n: int, k: int, batch: int = 1, dtype: str = "") -> _Cost:
        """A linear layer on m tokens, from k to n elements; in 8 bits its inputs are converted first."""
        cost = _Cost(
            self.product(m, n, k, batch, dtype),
            self.product(m, k, n, batch, dtype),
            self.product(k, n, m, batch, dtype),
        )
        if (dtype or self.layout.precision.compute) != "fp8":
            return cost
        return cost + _Cost(self.moved(4.0 * m * k * batch), self.moved(4.0 * m * n * batch), 0.0)


def layer_work(model: Transformer, layout: Layout, hardware: Hardware, software: Software) -> Work:
    """See :class:`Work`; of an average layer, where some have experts."""
    price = _Pricer(model, layout, hardware, software)
    attention = _attention(price)
    sparse = (model.layers - model.dense_layers) / model.layers if model.experts else 0.0
    cost = attention + _projections(price) + _between(price)
    cost = cost + _mlp(price, model.ffn) * (1 - sparse)
    if sparse:
        cost = cost + (_mlp(price, model.shared_ffn) + _experts(price)) * sparse
    idle = most(LAUNCHES * software.launch - cost.forward, 0)
    behind = most(2 * LAUNCHES * software.launch - cost.input - cost.weight, 0) / 2
    tp, tp_back = _tensor(price, cost)
    cp, cp_back = _context(price, attention)
    ep = _dispatch(price) * sparse
    end = _output(price)
    return Work(
        cost.forward + idle, cost.input + behind, cost.weight + behind, attention.forward, tp, tp_back, cp, cp_back,
        ep, ep, end.forward, end.input, end.weight, price.moved(6.0 * tokens(model, layout) * model.hidden),
    )  # fmt: skip


def _attention(price: _Pricer) -> _Cost:
    """Scores, softmax and values of all heads of a rank."""
    model, layout, software = price.model, price.layout, price.software
    local, seen = tokens(model, layout), model.sequence
    heads = ceil_div(model.heads, layout.tp)
    wide, deep = model.queries // model.heads, model.context // model.heads
    if layout.flash:
        half = 1.0 if model.encoder else 0.5
        flops = 2.0 * local * seen * heads * (wide + deep) * half
        core = flops / (price.hardware.chip.speed("bf16") * software.attention)
        core = most(core, price.moved(8.0 * local * heads * deep))
        return _Cost(core, FLASH_BACKWARD * core, 0.0 * core)
    rows, batch = model.sequence // layout.cp, layout.microbatch * heads
    once = price.product(rows, seen, wide, batch, "bf16") + price.product(rows, deep, seen, batch, "bf16")
    scores = 1.0 * batch * rows * seen
    mask = 1 + model.dropout  # without dropout half of the passes are left
    forward, back = (5 + 2 * mask) * scores, (7 + 2 * mask) * scores
    return _Cost(once + price.moved(forward), 2 * once + price.moved(back), 0.0 * once)


def _projections(price: _Pricer) -> _Cost:
    """Into queries, keys and values, and out of attention."""
    model, tp, local = price.model, price.layout.tp, tokens(price.model, price.layout)
    context = ceil_div(model.context, tp)
    out = price.linear(local, model.hidden, context)
    if not model.kv_rank:
        keys = ceil_div(model.kv_heads, tp) * (model.keys + model.values) // model.kv_heads
        return out + price.linear(local, ceil_div(model.queries, tp) + keys, model.hidden)
    small = model.kv_rank + model.rope + model.q_rank
    ask = price.linear(local, ceil_div(model.queries, tp), model.q_rank or model.hidden)
    return out + ask + price.linear(local, small, model.hidden) + price.linear(local, 2 * context, model.kv_rank)


def _between(price: _Pricer) -> _Cost:
    """Norms, sums, dropout and rotation: they move bytes. Two norms and two sums a layer."""
    model, layout = price.model, price.layout
    local = 1.0 * tokens(model, layout)
    sums = 6 + model.dropout
    nbytes = local * model.hidden * (2 * 4 + 2 * sums) / layout.sequence_ranks
    nbytes = nbytes + local * ceil_div(model.queries + model.keys + model.values, layout.tp) * 2
    return _Cost(price.moved(nbytes), price.moved(RETURN * nbytes), 0.0 * nbytes)


def _mlp(price: _Pricer, width: int) -> _Cost:
    """Nothing for width 0."""
    model, layout = price.model, price.layout
    if not width:
        return _Cost(0.0, 0.0, 0.0)
    return _expansion(price, tokens(model, layout), ceil_div(width, layout.tp), 1)


def _expansion(price: _Pricer, rows: int, width: int, batch: int) -> _Cost:
    """Up, the activation, and down; ``batch`` of them with ``rows`` tokens each."""
    h, up = price.model.hidden, (1 + price.model.gated) * width
    nbytes = 4.0 * rows * up * batch
    move = _Cost(price.moved(nbytes), price.moved(RETURN * nbytes), 0.0 * nbytes)
    return price.linear(rows, up, h, batch) + price.linear(rows, h, width, batch) + move


def _experts(price: _Pricer) -> _Cost:
    """Router, sorting the tokens by expert and back, and the experts of a rank with their even share of tokens."""
    model, layout = price.model, price.layout
    local, etp = tokens(model, layout), layout.expert_tp
    routed = ceil_div(local * model.top_k, layout.tp)
    rows = most(routed * etp * layout.ep // model.experts, 1)
    route = price.linear(ceil_div(local, layout.sequence_ranks), model.experts, model.hidden, 1, "bf16")
    nbytes = 8.0 * routed * etp * model.hidden
    sort = _Cost(price.moved(nbytes), price.moved(nbytes), 0.0 * nbytes)
    return route + sort + _expansion(price, rows, ceil_div(model.expert_ffn, etp), ceil_div(model.experts, layout.ep))


def _tensor(price: _Pricer, cost: _Cost) -> tuple[float, float]:
    """Sums over TP: two a layer and direction; with SP a gather and a scatter in their place, and two gathers more in
    the backward, under its products."""
    model, layout, hardware = price.model, price.layout, price.hardware
    nbytes = 2.0 * tokens(model, layout) * model.hidden
    once = 2 * links.all_reduce(hardware, nbytes, layout.tp)
    back = links.exposed(once, cost.weight, hardware.share) if price.software.hides_tp else once
    if not (layout.sp and layout.regather):
        return once, back
    again = 2 * links.all_gather(hardware, nbytes, layout.tp)
    return once, back + links.exposed(again, cost.input, hardware.share)


def _context(price: _Pricer, attention: _Cost) -> tuple[float, float]:
    """Keys and values go round the CP ranks under attention; in the backward their gradients, too."""
    model, layout, hardware = price.model, price.layout, price.hardware
    width = ceil_div(model.keys + model.values, layout.tp)
    passed = 2.0 * tokens(model, layout) * width * (layout.cp - 1)
    near = links.mates(hardware, layout.cp, layout.tp) >= layout.cp
    seconds = passed / pick(near, hardware.nvlink, hardware.nic)
    forward = links.exposed(seconds, attention.forward, hardware.share)
    return forward, links.exposed(2 * seconds, attention.input, hardware.share)


def _dispatch(price: _Pricer) -> float:
    """Tokens go to their experts and back."""
    model, layout = price.model, price.layout
    nbytes = 2.0 * tokens(model, layout) * model.top_k * model.hidden / layout.tp * layout.expert_tp
    return 2 * links.all_to_all(price.hardware, nbytes, layout.ep, layout.expert_tp)


def _output(price: _Pricer) -> _Cost:
    """The output matrix and the loss."""
    model, layout = price.model, price.layout
    local, rows = tokens(model, layout), ceil_div(model.vocab, layout.tp)
    dtype = "bf16" if layout.precision.compute == "fp8" else ""
    loss = price.moved(LOSS * 1.0 * local * rows)
    return price.linear(local, rows, model.hidden, 1, dtype) + _Cost(loss / 2, loss / 2, 0.0 * loss)
