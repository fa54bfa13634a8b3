"""The memory ledger: what every GPU of a plan holds at its fullest moment, by kind, in bytes.

::

    parameters  gradients  optimizer │ activations  logits │ working  buffers │ fragmentation
    └ at rest, split by ZeRO ───────┘└ microbatches in flight ┘└ for a moment ┘└ an allowance ┘

Activations and logits are those of the microbatches that the pipeline's schedule keeps in flight on that stage. Working
memory is what the backward of one layer, or of the output, needs while it runs. Buffers are what communication needs.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from parallel.formulas import StateBytes, state_bytes

from . import activations
from .activations import tokens
from .arithmetic import ceil_div, least, most
from .layout import Layout
from .parameters import Held, attention, mlp, norms, on_stage, vocabulary
from .transformer import Transformer

FRAGMENTATION = 0.05  # of what comes and goes; with expandable segments a few percent of it cannot be used again
GATHERED = 2  # layers whose parameters are there at once in ZeRO-3: the one that computes and the next
EXCLUDED = (
    "the CUDA context and libraries (about 1 GB a GPU)",
    "NCCL's own buffers",
    "workspaces of kernels",
    "experts that get more than their share of tokens",
)


@dataclass(frozen=True)
class Ledger:
    """Bytes of one rank. ``host``: in its node's memory instead; not part of the total."""

    parameters: float
    gradients: float
    optimizer: float
    activations: float
    logits: float
    working: float
    buffers: float
    fragmentation: float
    host: float

    @property
    def total(self) -> float:
        return self.allocated + self.fragmentation

    @property
    def allocated(self) -> float:
        """Without fragmentation: what an allocator counts as allocated at its peak."""
        return self.states + self.activations + self.logits + self.working + self.buffers

    @property
    def states(self) -> float:
        return self.parameters + self.gradients + self.optimizer

    def as_dict(self) -> dict[str, float]:
        """Whole bytes by kind, with ``total``."""
        found = {field.name: round(getattr(self, field.name)) for field in fields(self)}
        return {**found, "allocated": round(self.allocated), "total": round(self.total)}


def stage_ledger(model: Transformer, layout: Layout, stage: int, fragmentation: float = FRAGMENTATION) -> Ledger:
    """One pipeline stage.

    Args:
        stage: 0 to PP - 1.
        fragmentation: share of activations, logits, working memory and buffers that is lost between them.
    """
    held = on_stage(model, layout, stage)
    layers, dense = layout.layers_of(model, stage)
    states, host = _states(held, layout), layout.microbatch * 0.0
    plain, sparse = activations.layer(model, layout), activations.layer(model, layout, sparse=bool(model.experts))
    kept = layout.in_flight(stage) * (dense * plain.kept + (layers - dense) * sparse.kept)
    kept, logits = kept + _ends(model, layout, stage), _logits(model, layout, stage)
    recomputed = most(plain.whole - plain.kept, sparse.whole - sparse.kept)
    output = layout.is_last(stage) * _output_work(model, layout)
    working, buffers = most(_layer_work(model, layout, recomputed), output), _buffers(model, layout, held, layers)
    if "activations" in layout.offload:
        near = least(kept, 2 * most(plain.kept, sparse.kept))  # one layer computes, one is on its way
        host, kept = host + kept - near, near
    if "optimizer" in layout.offload or "parameters" in layout.offload:
        host = host + states.optimizer + states.gradients
        states = StateBytes(states.parameters, 0, 0)
    if "parameters" in layout.offload:
        host, states = host + states.parameters, StateBytes(0, 0, 0)
    lost = fragmentation * (kept + logits + working + buffers)
    return Ledger(*_each(states), kept, logits, working, buffers, lost, host)


def ledgers(model: Transformer, layout: Layout, fragmentation: float = FRAGMENTATION) -> list[Ledger]:
    """All stages of a layout, from the first to the last."""
    return [stage_ledger(model, layout, stage, fragmentation) for stage in range(layout.pp)]


def fullest(stages: list[Ledger]) -> int:
    """The stage that needs most; the first of equals."""
    return max(range(len(stages)), key=lambda stage: stages[stage].total)


def _states(held: Held, layout: Layout) -> StateBytes:
    """At rest: what all ranks of DP × CP hold alike is split over these, experts over fewer."""
    shared = state_bytes(held.shared, layout.replicas, layout.zero, layout.precision.state)
    experts = state_bytes(held.experts, layout.expert_replicas, layout.zero, layout.precision.state)
    return StateBytes(*(a + b for a, b in zip(_each(shared), _each(experts), strict=True)))


def _each(states: StateBytes) -> tuple[float, float, float]:
    return states.parameters, states.gradients, states.optimizer


def _ends(model: Transformer, layout: Layout, stage: int) -> float:
    """What is kept outside the layers, by the first stage and by the last."""
    first = layout.is_first(stage) * layout.in_flight(stage) * activations.embedding(model, layout)
    return first + layout.is_last(stage) * _finished(layout, stage) * activations.output(model, layout)


def _logits(model: Transformer, layout: Layout, stage: int) -> float:
    return layout.is_last(stage) * _finished(layout, stage) * activations.logits(model, layout)


def _finished(layout: Layout, stage: int) -> float:
    """Microbatches between their last forward and first backward: one, unless the schedule runs all forwards first."""
    return layout.in_flight(stage) if layout.schedule in ("gpipe", "looped") else 1


def _layer_work(model: Transformer, layout: Layout, recomputed: float) -> float:
    """The backward of a layer: what was recomputed, the gradient at its widest place, and that of its largest
    matrix."""
    size = layout.precision.activation
    width = most(ceil_div(model.ffn, layout.tp) * (1 + model.gated), model.hidden)
    gradient = tokens(model, layout) * (width + model.hidden) * size
    return recomputed + gradient + activations.widest(model, layout) * layout.precision.state.gradients


def _output_work(model: Transformer, layout: Layout) -> float:
    """The backward of the output: the logits' gradient in the dtype of matmuls. That of the output matrix is added to
    what there is by the kernel that computes it."""
    many = activations.LOGIT * (1 + layout.eager_loss)
    return activations.logits(model, layout) / many * layout.precision.activation


def _buffers(model: Transformer, layout: Layout, held: Held, layers: int) -> float:
    """What communication needs: gathered inputs, messages of the pipeline, keys and values on their way round, tokens
    for experts, and what ZeRO gathers or reduces at once."""
    size, local = layout.precision.activation, tokens(model, layout)
    message = local * model.hidden * size
    total = message * (layout.tp > 1) * int(layout.sp) * 1.0
    total = total + 2 * message / layout.sequence_ranks * (layout.pp > 1)
    total = total + 2 * local * ceil_div(model.keys + model.values, layout.tp) * size * (layout.cp > 1)
    if model.experts:
        total = total + 2 * message * model.top_k / layout.tp * layout.expert_tp * (layout.ep > 1)
    if layout.zero >= 2 or layout.wire:
        block = attention(model, layout.tp) + norms(model) + mlp(model, model.ffn, layout.tp)
        if model.experts:
            block = most(block, held.total // most(layers, 1))
        state, largest = layout.precision.state, most(block, vocabulary(model, layout.tp))
        many = (layout.dp * layout.cp) > 1
        total = total + largest * state.gradients * many * (layout.zero >= 2)
        total = total + GATHERED * largest * state.parameters * many * (layout.zero == 3)
        total = total + largest * layout.wire_bytes * many * bool(layout.wire)  # the copy that travels
    return total
