"""Which layouts can be: each constraint by itself, and in its sentence the nearest choice that can."""

from __future__ import annotations

import difflib
from dataclasses import replace

from parallel.formulas import check_stage

from .arithmetic import ceil_div
from .layout import LARGEST, LOOPED, SCHEDULES, VEE, Layout
from .precision import WIRES
from .transformer import Transformer, divisors, nearest


def check(model: Transformer, layout: Layout, gpus: int | None = None) -> list[str]:
    """Whether this layout can train this model.

    Returns:
        Notes on what is possible and unusual.

    Raises:
        ValueError: it cannot; the sentence names the nearest choice that can.
    """
    for name in ("dp", "pp", "tp", "cp", "ep", "vpp", "microbatch"):
        if not 1 <= getattr(layout, name) <= LARGEST:
            raise ValueError(f"{name}={getattr(layout, name)}: use a number from 1 to 2**40")
    check_stage(layout.zero)
    if layout.wire and layout.wire not in WIRES:
        raise ValueError(f"wire {layout.wire!r} is unknown: use {', '.join(WIRES)}")
    _check_gpus(layout, gpus)
    _check_tensor(model, layout)
    _check_pipeline(model, layout)
    _check_experts(model, layout)
    _check_batch(layout)
    return _notes(model, layout)


def _check_gpus(layout: Layout, gpus: int | None) -> None:
    if gpus is not None and layout.gpus != gpus:
        others = layout.gpus // layout.dp
        near = max(1, round(gpus / others))
        raise ValueError(
            f"gpus={gpus} is not DP {layout.dp} × PP {layout.pp} × CP {layout.cp} × TP {layout.tp} = {layout.gpus}: "
            + (f"use --dp {near}" if near * others == gpus else f"use --dp {near} and --gpus {near * others}")
        )


def _check_tensor(model: Transformer, layout: Layout) -> None:
    tp, cp = layout.tp, layout.cp
    choices = [n for n in divisors(model.heads) if model.ffn % n == 0 and _groups(model, n)]
    if tp not in choices:
        near = nearest(tp, choices)
        raise ValueError(
            f"tp={tp} does not split {model.name} evenly ({model.heads} heads, {model.kv_heads} of keys and values, "
            f"width {model.ffn}): use --tp {near}"
        )
    if model.sequence % cp:
        near = nearest(cp, divisors(model.sequence))
        raise ValueError(f"cp={cp} does not divide the sequence of {model.sequence} tokens: use --cp {near}")
    if layout.sp and (model.sequence // cp) % tp:
        step = cp * tp
        near = max(1, round(model.sequence / step)) * step
        raise ValueError(
            f"sp: TP {tp} × CP {cp} does not divide the sequence of {model.sequence} tokens: use --sequence {near}"
        )


def _groups(model: Transformer, tp: int) -> bool:
    """Key-value heads are shared out evenly, or each is copied to as many ranks."""
    return bool(model.kv_rank) or model.kv_heads % tp == 0 or tp % model.kv_heads == 0


def _check_pipeline(model: Transformer, layout: Layout) -> None:
    if layout.schedule not in SCHEDULES:
        near = _similar(layout.schedule, SCHEDULES)
        raise ValueError(f"schedule {layout.schedule!r} is unknown: use {near}")
    if layout.vpp > 1 and layout.schedule not in LOOPED:
        raise ValueError(
            f"vpp={layout.vpp}: a rank of {layout.schedule} has {layout.chunks if layout.schedule in VEE else 1} "
            "model chunks by itself: leave --vpp out, or use --schedule interleaved"
        )
    if layout.vpp > 1 and layout.pp == 1:
        raise ValueError(f"vpp={layout.vpp} needs a pipeline: use --pp 2, or leave --vpp out")
    virtual = layout.pp * layout.chunks
    ends = 2 * (layout.vpp > 1)  # interleaved, the embedding and the output may be chunks of their own
    if virtual > model.layers + ends:
        most_stages = model.layers // layout.chunks
        fix = f"--pp {most_stages}" if most_stages else f"--vpp {max(1, model.layers // layout.pp)}"
        raise ValueError(
            f"pp={layout.pp} with {layout.chunks} chunk{'s' * (layout.chunks > 1)} a rank needs {virtual} layers, and "
            f"{model.name} has {model.layers}: use {fix}"
        )


def _check_experts(model: Transformer, layout: Layout) -> None:
    ep, etp = layout.ep, layout.expert_tp
    if not model.experts:
        if ep > 1:
            raise ValueError(f"ep={ep}: {model.name} has no experts: use --ep 1")
        if layout.etp:
            raise ValueError(f"etp={layout.etp}: {model.name} has no experts: leave --etp out")
        return
    if etp < 1 or model.expert_ffn % etp:
        near = nearest(etp, divisors(model.expert_ffn))
        raise ValueError(f"etp={etp} does not divide an expert's width of {model.expert_ffn}: use --etp {near}")
    ranks = layout.dp * layout.cp * layout.tp
    choices = [n for n in divisors(model.experts) if ranks % (n * etp) == 0]
    if not choices:
        raise ValueError(
            f"etp={etp} does not divide the {ranks} ranks of a stage: use --etp {nearest(etp, divisors(ranks))}"
        )
    if ep not in choices:
        raise ValueError(
            f"ep={ep} does not share {model.experts} experts, each split over {etp}, among the {ranks} ranks of a "
            f"stage (DP × CP × TP): use --ep {nearest(ep, choices)}"
        )


def _check_batch(layout: Layout) -> None:
    step = layout.dp * layout.microbatch
    if layout.global_batch and layout.global_batch % step:
        near = max(1, round(layout.global_batch / step)) * step
        raise ValueError(
            f"global_batch={layout.global_batch} is not a multiple of DP {layout.dp} × microbatch {layout.microbatch}: "
            f"use --global-batch {near}"
        )
    if not 0 <= layout.global_batch <= LARGEST:
        raise ValueError(f"global_batch={layout.global_batch}: use a number from {step} to 2**40")


def _notes(model: Transformer, layout: Layout) -> list[str]:
    notes = []
    virtual = layout.pp * layout.chunks
    if model.layers % virtual:
        less = model.layers // virtual
        notes.append(
            f"{model.layers} layers do not divide by {virtual}: {less} or {less + 1} each; the first and the last get "
            "the fewer"
        )
    if layout.schedule == "interleaved" and layout.microbatches % layout.pp:
        near = max(1, round(layout.microbatches / layout.pp)) * layout.pp * layout.dp * layout.microbatch
        notes.append(f"Megatron-LM interleaves microbatches in multiples of PP only, as with --global-batch {near}")
    if layout.zero >= 2 and layout.pp > 1:
        notes.append(
            f"ZeRO-{layout.zero} beside a pipeline repeats its communication for every microbatch; ZeRO-1 does not"
        )
    if layout.sp and layout.tp == 1:
        notes.append("sp does nothing at TP 1")
    if layout.flash and layout.recompute == "selective":
        notes.append("with flash attention there are no scores to recompute: selective changes next to nothing")
    return notes


def _similar(text: str, names: tuple[str, ...]) -> str:
    return ", ".join(difflib.get_close_matches(text.lower(), names, n=3, cutoff=0.4) or names)


def filled(layout: Layout, gpus: int | None) -> Layout:
    """The layout with as much data parallelism as the GPUs allow, where it was left open (dp = 0).

    Raises:
        ValueError: the GPUs are not a multiple of the other axes.
    """
    if gpus == 0:
        raise ValueError("gpus=0: use a number from 1 on")
    if layout.dp:
        return layout
    others = layout.pp * layout.tp * layout.cp
    if gpus is None or others < 1:
        return replace(layout, dp=1)
    if gpus % others:
        below, above = gpus // others * others, ceil_div(gpus, others) * others
        near = above if below == 0 or above - gpus < gpus - below else below
        raise ValueError(
            f"gpus={gpus} is not a multiple of PP {layout.pp} × CP {layout.cp} × TP {layout.tp} = {others}: "
            f"use --gpus {near}"
        )
    return replace(layout, dp=gpus // others)
