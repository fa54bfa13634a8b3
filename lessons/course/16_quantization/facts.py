"""The numbers of lesson 16: codes, what they lose, and what travels."""

from __future__ import annotations

import functools

import torch

from lessons.checks.references import REFERENCES
from lessons.figures.plot import Data
from parallel.quantize import quantize
from parallel.wire import Blocks
from sim.chip import CHIPS
from sim.planner.models import MODELS
from sim.planner.parameters import total
from sim.planner.precision import WIRES
from sim.units import show_bytes, show_count

STEPS, ELEMENTS, BLOCK = 50, 512, 128
RANKS = 8
CODE, ADDED = 100, 4
LARGE, SMALL = 4.0, 0.01  # in one block


@functools.cache
def feedback() -> Data:
    """How far all that was delivered is from all that should have been, at worst, over the steps."""
    random = torch.Generator().manual_seed(0)
    gradient, codec = SMALL * torch.randn(ELEMENTS, generator=random), Blocks(BLOCK)
    gradient[::BLOCK] = LARGE  # one large element a block makes the scale of the others
    residual, found = torch.zeros(ELEMENTS), {"without": [0.0], "with": [0.0]}
    delivered = {name: torch.zeros(ELEMENTS) for name in found}
    for step in range(1, STEPS + 1):
        for name in found:
            wanted = gradient + residual if name == "with" else gradient
            came = codec.decode(codec.encode(wanted), wanted)
            residual = wanted - came if name == "with" else residual
            delivered[name] += came
            found[name].append(float((delivered[name] - step * gradient).abs().max()))
    return Data(range(STEPS + 1), found)


def facts() -> dict[str, str | int | float]:
    """See ``lesson16.toml``."""
    errors = feedback().curves
    model, chip = MODELS["gpt2-xl"], CHIPS["h100"]
    elements = total(model)
    share = (RANKS - 1) / RANKS
    sent = REFERENCES["sent_bytes"].answer
    values = torch.tensor([[0.50, -1.27, 0.02, 0.64]])
    coded = quantize(values)
    wrapped = torch.full((ADDED,), CODE, dtype=torch.int8).sum(dtype=torch.int8)
    shown = ", ".join(f"{one:g}" for one in values[0].tolist())
    return {
        "values": shown,
        "codes": ", ".join(str(one) for one in coded.codes[0].tolist()).ljust(len(shown)),  # below each other
        "example_scale": f"{float(coded.scales):g}",
        "block": BLOCK,
        "levels": 2 * 127 + 1,
        "int8_bytes": f"{WIRES['int8']:.3g}",
        "model": "GPT-2 XL",
        "parameters": show_count(elements),
        "ranks": RANKS,
        "sent_fp32": show_bytes(4 * share * elements),
        "sent_bf16": show_bytes(2 * share * elements),
        "sent_int8": show_bytes(sent(elements // RANKS * RANKS, RANKS, BLOCK)),
        "steps": STEPS,
        "error_without": f"{errors['without'][-1]:.2g}",
        "error_with": f"{errors['with'][-1]:.2g}",
        "top": 127,
        "bottom": -128,
        "levels_all": 256,
        "large": f"{LARGE:g}",
        "small": f"{SMALL:g}",
        "small_scale": f"{LARGE / 127:.1g}",
        "waits": next(step for step in range(1, 100) if step * SMALL > LARGE / 127 / 2),
        "chip": "H100",
        "int8_ratio": f"{chip.speed('int8') / chip.speed('bf16'):.0f}",
        "code": CODE,
        "added": ADDED,
        "exact": CODE * ADDED,
        "hops": RANKS - 1,
        "calculate_largest": 2.54,
        "calculate_scale": f"{2.54 / 127:g}",
        "calculate_elements": 4096,
        "calculate_ranks": 4,
        "calculate_part": 4096 // 4,
        "calculate_blocks": 4096 // 4 // BLOCK,
        "predict_answer": int(wrapped),
        "predict_tolerance": 0.0,
        "calculate_1_answer": 2.54 / 127 / 2,
        "calculate_1_tolerance": 0.01,
        "calculate_2_answer": sent(4096, 4, BLOCK),
        "calculate_2_tolerance": 0.0,
    }
