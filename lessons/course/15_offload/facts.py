"""The numbers of lesson 15: of a large model on a GPU beside its host, by the planner's closed forms."""

from __future__ import annotations

from collections.abc import Sequence

from collectives.span import Span
from lessons.checks.references import REFERENCES
from sim.chip import CHIPS
from sim.planner import activations
from sim.planner.constants import HOST_MEMORY
from sim.planner.flops import components
from sim.planner.hardware import hardware_of
from sim.planner.layout import Layout
from sim.planner.models import MODELS
from sim.planner.parameters import total
from sim.planner.precision import PRECISIONS
from sim.units import show_bytes, show_count, show_time

LAYERS, COMPUTE, TRANSFER = 4, 2.0, 3.0  # of the picture, in slots
CHIP, MODEL, SMALL = "h100", "gpt3-175b", "gpt2-xl"
ALL, INPUT = 34, 2  # bytes that a layer keeps a token and element of its width: everything, or its input alone
WEIGHTS = 4 + 2 * 4  # of a layer, in squares of its width: four matrices of attention, two of the MLP
FASTER = 450e9  # bytes a second, of NVLink between a GPU and its host
TIMES = 8


def timetable() -> Sequence[Span]:
    """A forward whose activations leave over a slow link, and a backward for which they come back."""
    spans, computed, arrived = list[Span](), 0.0, 0.0
    for layer in range(LAYERS):
        spans.append(Span(0, "compute", f"F {layer}", computed, computed + COMPUTE))
        computed += COMPUTE
        start = max(computed, arrived)
        arrived = start + TRANSFER
        spans.append(Span(1, "compute", f"send {layer}", start, arrived))
    fetched = ended = arrived
    for layer in reversed(range(LAYERS)):
        spans.append(Span(2, "compute", f"recv {layer}", fetched, fetched + TRANSFER))
        fetched += TRANSFER
        start = max(fetched, ended)
        ended = start + 2 * COMPUTE
        spans.append(Span(0, "compute", f"B {layer}", start, ended))
    return spans


def facts() -> dict[str, str | int | float]:
    """See ``lesson15.toml``."""
    model, small, chip = MODELS[MODEL], MODELS[SMALL], CHIPS[CHIP]
    hardware = hardware_of(chip)
    width, tokens, seconds = (REFERENCES[name].answer for name in ("least_width", "least_tokens", "forward_seconds"))
    kept = activations.layer(model, Layout()).kept
    flops = sum(components(model).values()) - components(model)["embeddings"] - components(model)["logits"]
    compute, transfer = flops / model.layers / chip.speed("bf16"), kept / hardware.host
    touched = total(small) * PRECISIONS["fp16"].update_bytes
    return {
        "chip": "H100",
        "model": "GPT-3",
        "layers": model.layers,
        "width": f"{model.hidden:,}",
        "tokens": f"{model.sequence:,}",
        "peak": f"{chip.speed('bf16') / 1e12:.0f} TFLOP/s",
        "host": f"{hardware.host / 1e9:g} GB/s",
        "faster": f"{FASTER / 1e9:g} GB/s",
        "kept": show_bytes(kept),
        "all_kept": show_bytes(model.layers * kept),
        "compute": show_time(compute),
        "transfer": show_time(transfer),
        "ratio": f"{transfer / compute:.1f}",
        "times": TIMES,
        "forward_alone": show_time(model.layers * compute),
        "forward": show_time(seconds(model.layers, compute, transfer)),
        "all": ALL,
        "input": INPUT,
        "weights": WEIGHTS,
        "operations": 2 * WEIGHTS,
        "width_all": f"{width(ALL, hardware.host, chip.speed('bf16')):,.0f}",
        "width_input": f"{width(INPUT, hardware.host, chip.speed('bf16')):,.0f}",
        "width_faster": f"{width(ALL, FASTER, chip.speed('bf16')):,.0f}",
        "tokens_states": f"{tokens(2, hardware.host, chip.speed('bf16')):,.0f}",
        "tokens_backward": f"{tokens(2, hardware.host, chip.speed('bf16') * 6 / 4):,.0f}",
        "small": "GPT-2 XL",
        "parameters": show_count(total(small)),
        "host_memory": f"{HOST_MEMORY / 1e9:g} GB/s",
        "update": show_time(touched / HOST_MEMORY),
        "picture_layers": LAYERS,
        "picture_compute": f"{COMPUTE:g}",
        "picture_transfer": f"{TRANSFER:g}",
        "picture_forward": f"{seconds(LAYERS, COMPUTE, TRANSFER):g}",
        "calculate_layers": 24,
        "calculate_compute": 5,
        "calculate_transfer": 3,
        "calculate_bytes": 4,
        "calculate_link": "25 GB/s",
        "calculate_peak": "312 TFLOP/s",
        "predict_answer": round(transfer / compute, 2),
        "predict_tolerance": 0.1,
        "calculate_1_answer": seconds(24, 5.0, 3.0),
        "calculate_1_tolerance": 0.0,
        "calculate_2_answer": round(tokens(4, 25e9, 312e12)),
        "calculate_2_tolerance": 0.02,
    }
