"""How long a training step takes, and where its time goes: closed forms over :mod:`sim.planner.work`.

::

    │ m microbatches on the heaviest stage: computing, and communication that nothing hides │ bubble │ dp │ optimizer │

The heaviest stage sets the pace; the others cost what a pipeline of them waits while it fills and drains
(:mod:`sim.planner.bubbles`). Kinds of time add up to the step:

    compute    of a rank of the heaviest stage, with what is recomputed
    tp cp ep   sums over tensor parallel ranks, keys and values on their way round, tokens to experts and back
    p2p        messages between stages
    dp         gradients, and with ZeRO parameters, over data parallel ranks
    offload    over PCIe, and an optimizer in host memory
    bubble     waiting for other stages
    optimizer  on the GPU

All may be arrays; :class:`~sim.planner.layout.Layout` says which of its fields are one choice for all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

from . import links, parameters
from .activations import layer as activations_of
from .activations import tokens
from .arithmetic import least, most, pick
from .bubbles import makespan
from .constants import HOST_MEMORY, Software
from .directions import NOTHING, Directions, slower
from .hardware import Hardware
from .kernels import traffic
from .layout import VEE, Layout
from .parameters import Held
from .transformer import Transformer
from .work import Work, layer_work


@dataclass(frozen=True)
class StepTime:
    """Seconds by kind, see above. heaviest, others: one microbatch on the heaviest stage, and on the mean of the
    others; p2p_s: one message between stages that computing may hide."""

    compute: float
    tp: float
    cp: float
    ep: float
    dp: float
    p2p: float
    offload: float
    bubble: float
    optimizer: float
    heaviest: Directions
    others: Directions
    p2p_s: float
    after_s: float  # what follows the pipeline: dp, offload and the optimizer
    held: Held  # parameters on the heaviest stage

    @property
    def breakdown(self) -> dict[str, float]:
        """Seconds by kind."""
        return {name: getattr(self, name) for name in KINDS}

    @property
    def time_s(self) -> float:
        """Of the step: the sum of its kinds."""
        return sum(self.breakdown.values())


KINDS = tuple(field.name for field in fields(StepTime))[:9]


def step_time(
    model: Transformer, layout: Layout, hardware: Hardware, software: Software, work: Work | None = None
) -> StepTime:
    """One step. O(1); for arrays of plans, O(plans).

    Args:
        layout: checked (:func:`sim.planner.constraints.check`).
        work: of :func:`~sim.planner.work.layer_work`, where many plans share it.
    """
    work = work or layer_work(model, layout, hardware, software)
    p, m, v = layout.pp, layout.microbatches, layout.chunks
    parts = _layer(work, layout), _embedding(work), _output(work)
    shares, stage = _heaviest(model, layout, *(part.slot for part in parts))
    others = tuple((whole - own) / most(p - 1, 1) for whole, own in zip((model.layers, 1, 1), shares, strict=True))
    message, sends = _message(model, layout, hardware, software)
    held = parameters.on_stage(model, layout, stage)
    heavy = replace(_stage(model, layout, hardware, software, parts, shares, held), p2p=(sends, sends))
    rest = replace(_stage(model, layout, hardware, software, parts, others, held), p2p=(sends, sends))
    heavy = slower(heavy, rest, p > 1)  # host memory may hold up stages that compute less
    still = makespan(layout.schedule, p, m, v, heavy.as_slot, rest.as_slot)
    moving = makespan(layout.schedule, p, m, v, heavy.as_slot, rest.as_slot, message)
    piped = p > 1
    dp, offload, optimizer = _after(model, layout, hardware, software, held, heavy)
    return StepTime(
        compute=m * sum(heavy.compute),
        tp=m * sum(heavy.tp),
        cp=m * sum(heavy.cp),
        ep=m * sum(heavy.ep),
        dp=m * sum(heavy.dp) + dp,
        p2p=m * sum(heavy.p2p) + piped * (moving - still),
        offload=m * sum(heavy.offload) + offload,
        bubble=piped * (still - m * heavy.slot),
        optimizer=optimizer,
        heaviest=heavy,
        others=rest,
        p2p_s=message,
        after_s=dp + offload + optimizer,
        held=held,
    )


def overlapped(model: Transformer, layout: Layout, hardware: Hardware, software: Software, step: StepTime) -> StepTime:
    """The time of a plan that differs from that of ``step`` in nothing but overlap."""
    dp, offload, optimizer = _after(model, layout, hardware, software, step.held, step.heaviest)
    under = layout.microbatches * sum(step.heaviest.dp)
    return replace(step, dp=under + dp, after_s=dp + offload + optimizer)


def _layer(work: Work, layout: Layout) -> Directions:
    """One layer of a microbatch, with what is recomputed in its backward."""
    again = 1.0 if layout.recompute == "full" else 0.0
    scores = work.attention if layout.recompute == "selective" and not layout.flash else 0.0
    back = work.input + work.weight + again * work.forward + scores
    return Directions(
        (work.forward, back),
        (work.tp, work.tp_back + again * work.tp),
        (work.cp, work.cp_back + again * work.cp),
        (work.ep, work.ep_back + again * work.ep),
        NOTHING, NOTHING, NOTHING, work.weight,
    )  # fmt: skip


def _embedding(work: Work) -> Directions:
    return _only_compute(work.embedding, work.embedding, 0.0 * work.embedding)


def _only_compute(forward: float, back: float, weight: float) -> Directions:
    return Directions((forward, back), NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, weight)


def _output(work: Work) -> Directions:
    back = work.output_input + work.output_weight
    return _only_compute(work.output, back, work.output_weight)


def _heaviest(model: Transformer, layout: Layout, one: float, first: float, last: float) -> tuple[list[int], int]:
    """(layers, has the embedding, has the output) of the stage that takes longest, and its number.

    Stages in the middle are alike or lighter than the second, so three are compared.
    """
    found = []
    for stage in (0, least(layout.pp - 1, 1), layout.pp - 1):
        layers, _ = layout.layers_of(model, stage)
        at_start, at_end = layout.is_first(stage) * 1, layout.is_last(stage) * 1
        found.append((layers * one + at_start * first + at_end * last, layers, at_start, at_end, stage))
    slot, *best = found[0]
    for other, *said in found[1:]:
        best = [pick(other > slot, new, old) for new, old in zip(said, best, strict=True)]
        slot = most(slot, other)
    return best[:3], best[3]


def _stage(
    model: Transformer,
    layout: Layout,
    hardware: Hardware,
    software: Software,
    parts: Sequence[Directions],
    shares: Sequence[float],
    held: Held,
) -> Directions:
    """So much of a layer, of the embedding and of the output, what ZeRO gathers and reduces under them, and what goes
    to host memory and back."""

    def total(kind: str) -> tuple[float, float]:
        each = [(share, getattr(part, kind)) for share, part in zip(shares, parts, strict=True)]
        return sum(share * seconds[0] for share, seconds in each), sum(share * seconds[1] for share, seconds in each)

    compute, tp, cp, ep = total("compute"), total("tp"), total("cp"), total("ep")
    weight = sum(share * part.weight for share, part in zip(shares, parts, strict=True))
    ahead, back = (compute[way] + tp[way] + cp[way] + ep[way] for way in (0, 1))
    dp = _each_microbatch(layout, hardware, software, held, shares[0], ahead, back)
    offload = _host_traffic(model, layout, hardware, held, shares[0], ahead, back)
    return Directions(compute, tp, cp, ep, dp, NOTHING, offload, weight)


def _each_microbatch(
    layout: Layout, hardware: Hardware, software: Software, held: Held, layers: float, ahead: float, back: float
) -> tuple[float, float]:
    """ZeRO-2 reduces gradients, ZeRO-3 also gathers parameters twice, layer by layer under the computing."""
    if layout.zero < 2:
        return NOTHING
    reduced = _over_replicas(links.all_gather, layout, hardware, held, layout.wire_bytes, layers)
    gathered = _over_replicas(links.all_gather, layout, hardware, held, layout.precision.state.parameters, layers)
    if layout.zero == 2:
        return 0.0, links.exposed(reduced, back, hardware.share)
    gathering = links.exposed(gathered, ahead, hardware.share)
    if not software.prefetches:
        return gathering, gathered + reduced
    return gathering, links.exposed(gathered + reduced, back, hardware.share)


def _over_replicas(
    collective: Callable[..., float], layout: Layout, hardware: Hardware, held: Held, size: float, calls: float = 1
) -> float:
    """One collective of all that a rank holds, experts among those that hold the same, in so many calls."""
    shared = collective(hardware, held.shared * size, layout.replicas, layout.tp)
    more = most(calls - 1, 0) * links.latency(hardware, layout.replicas, layout.tp)
    apart = layout.ep * layout.expert_tp
    experts = collective(hardware, held.experts * size, layout.expert_replicas, apart) * (held.experts > 0)
    return shared + more + experts


def _host_traffic(
    model: Transformer, layout: Layout, hardware: Hardware, held: Held, layers: float, ahead: float, back: float
) -> tuple[float, float]:
    """Activations go out under the forward and come back under the backward; parameters come for each."""
    seconds = 0.0
    if "activations" in layout.offload:
        seconds = seconds + layers * activations_of(model, layout).kept / hardware.host
    if "parameters" in layout.offload:
        own = held.total * layout.precision.state.parameters / (layout.replicas if layout.zero == 3 else 1)
        seconds = seconds + own / hardware.host
    return links.exposed(seconds, ahead, 0.0), links.exposed(seconds, back, 0.0)


def _message(model: Transformer, layout: Layout, hardware: Hardware, software: Software) -> tuple[float, float]:
    """(Seconds of a message between stages that computing can hide, seconds that a rank waits for its own in each
    direction.) Ranks of TP send a part each; the receivers put them together over NVLink."""
    stride = layout.dp * layout.cp * layout.tp
    nbytes = 2.0 * tokens(model, layout) * model.hidden
    seconds = links.send(hardware, nbytes / layout.tp, layout.pp, stride)
    if not layout.sp:
        seconds = seconds + (layout.pp > 1) * links.all_gather(hardware, nbytes, layout.tp)
    if layout.schedule == "interleaved" and not software.hides_p2p:
        return 0.0 * seconds, layout.vpp * seconds
    return seconds, 0.0 * seconds


def _after(
    model: Transformer, layout: Layout, hardware: Hardware, software: Software, held: Held, heavy: Directions
) -> tuple[float, float, float]:
    """Once a step: (gradients and parameters over DP that nothing hides, offload, optimizer)."""
    state, zero = layout.precision.state, layout.zero
    dp = 0.0 * heavy.slot
    gathered = _over_replicas(links.all_gather, layout, hardware, held, state.parameters)
    if zero < 2:
        under = heavy.compute[1] if layout.overlap else 0.0 * heavy.slot
        collective = links.all_gather if zero else links.all_reduce  # ZeRO-1 scatters, which costs what gathering does
        whole = _over_replicas(collective, layout, hardware, held, layout.wire_bytes)
        dp = dp + pick(under > 0, links.exposed(whole, under, hardware.share), whole)
    if zero in (1, 2):
        under = heavy.compute[0] if layout.overlap else 0.0 * heavy.slot
        dp = dp + pick(under > 0, links.exposed(gathered, under, hardware.share), gathered)
    if model.output in ("tied", "masked") and layout.schedule not in VEE:  # its two ends agree on its gradient
        matrix = parameters.vocabulary(model, layout.tp) * layout.wire_bytes
        apart = layout.dp * layout.cp * layout.tp * most(layout.pp - 1, 1)
        dp = dp + (layout.pp > 1) * links.all_reduce(hardware, matrix, 2, apart)
    own = held.shared / (layout.replicas if zero else 1) + held.experts / (layout.expert_replicas if zero else 1)
    touched = own * layout.precision.update_bytes
    if "optimizer" in layout.offload or "parameters" in layout.offload:
        moved = own * (state.gradients + state.parameters) / hardware.host
        return dp, moved + touched / HOST_MEMORY, 0.0
    return dp, 0.0, traffic(touched, hardware.chip, software)
