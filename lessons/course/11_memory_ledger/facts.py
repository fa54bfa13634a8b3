"""The numbers of lesson 11: parameters and bytes of known models, from the planner's closed forms."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from lessons.figures.stacks import Row
from parallel.formulas import ACCUMULATING, FULL, MIXED, state_bytes
from sim.chip import CHIPS
from sim.planner import activations
from sim.planner.layout import Layout
from sim.planner.memory import stage_ledger
from sim.planner.models import MODELS
from sim.planner.parameters import by_formula, on_stage, parts, total, vocabulary
from sim.units import show_count, show_gigabytes

SMALL, XL, GPT3 = MODELS["gpt2"], MODELS["gpt2-xl"], MODELS["gpt3-175b"]
HUNDRED, ROUND = 100_000_000_000, 1_500_000_000  # parameters
MESH = Layout(dp=8, tp=8, pp=16, global_batch=8)  # of the documents' example
BATCH = 8
LENGTHS = (1024, 2048)
CARD = CHIPS["a100"]


def facts() -> dict[str, str | int | float]:
    """See ``lesson11.toml``."""
    known: dict[str, str | int | float] = {
        "small": f"{total(SMALL):,}",
        "small_untied": f"{total(SMALL) + vocabulary(SMALL):,}",
        "xl": show_count(total(XL)),
        "xl_file": show_gigabytes(2 * total(XL)),
        "xl_states": show_gigabytes(state_bytes(total(XL)).total),
        "bits": 16,
        "round_count": show_count(ROUND),
        "xl_round": show_gigabytes(state_bytes(ROUND).total),
        "sum": round(MIXED.total),
        "accumulating": round(ACCUMULATING.total),
        "less": round(MIXED.total) - 4,
        "more": round(MIXED.total) + 8,
        "dp": MESH.dp,
        "tp": MESH.tp,
        "pp": MESH.pp,
        "gpus": f"{MESH.gpus:,}",
    }
    for name, number in (("small", total(SMALL)), ("xl", total(XL)), ("gpt3", total(GPT3)), ("hundred", HUNDRED)):
        known[f"{name}_count"] = show_count(number)
        known[f"{name}_fp32"] = show_gigabytes(FULL.parameters * number)
        known[f"{name}_half"] = show_gigabytes(MIXED.parameters * number)
        known[f"{name}_training"] = show_gigabytes(state_bytes(number).total)
    own = by_formula(GPT3, MESH)
    for stage in range(4):
        known[f"zero_{stage}"] = show_gigabytes(state_bytes(round(own), MESH.dp, stage).total)
    first = on_stage(GPT3, MESH, 0).total
    layer, pieces = activations.layer(GPT3, Layout(flash=False)), layers()[0].parts
    whole = parts(GPT3)
    known |= {
        "rank": f"{own:,.0f}",
        "rank_exact": f"{first:,}",
        "rank_more": f"{first / own - 1:.2%}",
        "share_layers": f"{(whole['attention'] + whole['mlp']) / total(GPT3):.1%}",
        "flat": f"{sum(pieces.values()) - pieces['scores']:g}",
        "norms": f"{pieces['norms']:g}",
        "attention": f"{pieces['attention']:g}",
        "mlp": f"{pieces['mlp']:g}",
        "optimizer_bytes": round(MIXED.optimizer),
        "cards": ceil(GPT3.layers * layer.kept / CARD.memory),
        "layer": show_gigabytes(layer.kept),
        "layer_scores": f"{layer.scores / layer.kept:.0%}",
        "layer_flash": show_gigabytes(activations.layer(GPT3, Layout(recompute="selective", flash=False)).kept),
        "layer_full": show_gigabytes(activations.layer(GPT3, Layout(recompute="full", flash=False)).kept),
        "predict_answer": MIXED.total / FULL.total,
        "predict_tolerance": 0.01,
        "calculate_1_answer": round(state_bytes(round(own), MESH.dp, 1).total / 1e9, 2),
        "calculate_1_tolerance": 0.01,
        "calculate_2_answer": round(GPT3.layers * layer.kept / 1e9, 1),
        "calculate_2_tolerance": 0.02,
    }
    short, long = (activations.layer(replace(XL, sequence=length), Layout(flash=False)) for length in LENGTHS)
    return known | {
        "short": LENGTHS[0],
        "long": LENGTHS[1],
        "long_all": f"{long.kept / short.kept:.2f}",
        "long_scores": f"{long.scores / short.scores:g}",
        "long_rest": f"{(long.kept - long.scores) / (short.kept - short.scores):g}",
    }


def ledgers() -> list[Row]:
    """GPT-2 XL on one GPU, with less and less that is kept for the backward."""
    plain = Layout(microbatch=BATCH, global_batch=BATCH, flash=False)
    choices = {
        "all": plain,
        "flash": replace(plain, flash=True),
        "full": replace(plain, recompute="full"),
        "one": replace(plain, recompute="full", microbatch=1, global_batch=1),
    }
    rows = []
    for name, layout in choices.items():
        ledger = stage_ledger(XL, layout, 0)
        kinds = {kind: getattr(ledger, kind) for kind in ("parameters", "gradients", "optimizer", "activations")}
        kinds["moment"] = ledger.total - sum(kinds.values())
        rows.append(Row(name, kinds, {"batch": layout.microbatch}))
    return rows


def layers() -> list[Row]:
    """What a layer of GPT-3 keeps, in units of s·b·h."""
    rows = []
    for name, recompute in (("none", "none"), ("selective", "selective"), ("input", "full")):
        layout = Layout(flash=False, recompute=recompute)  # type: ignore[arg-type]
        unit, kept = activations.tokens(GPT3, layout) * GPT3.hidden, activations.layer(GPT3, layout)
        attention, mlp = activations.attention(GPT3, layout) / unit, activations.mlp(GPT3, layout, GPT3.ffn) / unit
        norms = (kept.whole - kept.scores) / unit - attention - mlp
        scores = kept.scores / unit * (recompute == "none")
        parts = {"norms": norms, "attention": attention, "mlp": mlp, "scores": scores}
        rows.append(Row(name, {"input": kept.kept / unit} if recompute == "full" else parts))
    return rows
