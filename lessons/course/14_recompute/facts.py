"""The numbers of lesson 14: measured on a small GPT, and the planner's of a large one."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
from torch import nn

from collectives.span import Span
from lessons.checks.references import REFERENCES
from lessons.figures.plot import Data
from parallel.memory import Ledger
from parallel.model import MLP
from parallel.recompute import in_segments
from sim.planner import activations
from sim.planner.flops import forward, recomputed, training
from sim.planner.layout import Layout
from sim.planner.models import MODELS
from sim.units import show_bytes

LAYERS, HIDDEN, TOKENS = 16, 16, 32
LARGE = "gpt3-175b"


@functools.cache
def segments() -> Data:
    """Bytes of activations at the fullest moment over the number of segments: measured, and by the formula."""
    blocks = [nn.Sequential(nn.LayerNorm(HIDDEN), MLP(HIDDEN)) for _ in range(LAYERS)]
    border = 4 * TOKENS * HIDDEN
    every = range(1, LAYERS + 1)
    inside = _measured(blocks, 0) // LAYERS - border
    formula = REFERENCES["peak_bytes"].answer
    curves = {
        "measured": [_measured(blocks, many) for many in every],
        "formula": [formula(LAYERS, many, inside, border) for many in every],
    }
    return Data(every, curves)


def _measured(blocks: list[nn.Module], many: int) -> int:
    """In so many segments; 0: without recompute, what is kept after the forward."""
    x, gradient = torch.randn(TOKENS, HIDDEN, requires_grad=True), torch.ones(TOKENS, HIDDEN)
    with Ledger(nn.Identity()) as ledger:  # it need not know the weights: they are made before
        value = x.clone()
        if not many:
            for block in blocks:
                value = block(value)
            return ledger.now()["activations"] - value.nbytes
        value = in_segments(blocks, many, value)
        ledger.reset_peak()
        value.backward(gradient)  # type: ignore[no-untyped-call]
        return ledger.tops["activations"] - value.nbytes


def timetable() -> Sequence[Span]:
    """A step of four layers: nothing dropped, and in two segments. A backward takes two slots, all else one."""
    plain = ["F 0", "F 1", "F 2", "F 3", "B 3", "B 2", "B 1", "B 0"]
    again = ["F 0", "F 1", "F 2", "F 3", "R 2", "R 3", "B 3", "B 2", "R 0", "R 1", "B 1", "B 0"]
    spans = list[Span]()
    for row, names in enumerate((plain, again)):
        now = 0.0
        for name in names:
            spans.append(Span(row, "compute", name, now, now + 1 + name.startswith("B")))
            now = spans[-1].end
    return spans


def facts() -> dict[str, str | int | float]:
    """See ``lesson14.toml``."""
    model = MODELS[LARGE]
    eager, flash = activations.layer(model, Layout(flash=False)), activations.layer(model, Layout())
    border = activations.layer(model, Layout(recompute="full")).kept
    inside = round(flash.whole - border)
    peak, best = REFERENCES["peak_bytes"].answer, REFERENCES["best_segments"].answer
    root = round(model.layers**0.5)
    few, many = 16, best(model.layers, inside, round(border))
    flops = forward(model)
    step = training(flops)
    return {
        "layers": model.layers,
        "model": "GPT-3",
        "border": show_bytes(border),
        "inside": show_bytes(inside),
        "ratio": f"{inside / border:.1f}",
        "root": root,
        "all_kept": show_bytes(model.layers * (inside + border)),
        "root_peak": show_bytes(peak(model.layers, root, inside, round(border))),
        "best": many,
        "best_length": model.layers // many,
        "best_peak": show_bytes(peak(model.layers, many, inside, round(border))),
        "each_peak": show_bytes(peak(model.layers, model.layers, inside, round(border))),
        "even": few,
        "even_root": round(few**0.5),
        "even_kept": few,
        "even_peak": peak(few, 4, 0, 1),
        "extra": f"{recomputed(flops, 'full') / step:.1%}",
        "third": f"{1 / 3:.0%}",
        "scores_bytes": f"{eager.scores / eager.whole:.0%}",
        "scores_flops": f"{recomputed(flops, 'selective') / step:.1%}",
        "calculate_layers": 32,
        "calculate_segments": 6,
        "calculate_inside": 200,
        "calculate_border": 12,
        "calculate_longest": -(-32 // 6),
        "calculate_seconds": 3,
        "predict_answer": many,
        "predict_tolerance": 0.0,
        "calculate_1_answer": peak(32, 6, 200, 12),
        "calculate_1_tolerance": 0.0,
        "calculate_2_answer": round(3 * (1 + 1 / 3), 3),
        "calculate_2_tolerance": 0.02,
    }
