"""The numbers of lesson 13: of torch's own numbers, of a regression trained in them, and of a small GPT's gradients."""

from __future__ import annotations

import functools
import inspect
import math
from collections import Counter

import torch
from torch import Tensor, nn

from lessons.figures.bars import Bar
from lessons.figures.plot import Data
from parallel.formulas import FULL, MIXED, state_bytes
from parallel.model import GPT, Config, cross_entropy
from parallel.precision import LossScale, MixedPrecision
from sim.chip import CHIPS
from sim.planner.models import MODELS
from sim.planner.parameters import total
from sim.units import show_count, show_gigabytes

UPDATE, TIMES = 1e-4, 1000
STEPS, RATE = 400, 2.0**-7
NEAR = 8.0  # where the weights of the regression lie
SCALE = 2.0**14
LARGEST_GRADIENT, FITTING = 3.1, 2.0**10
HALF, BRAIN = torch.finfo(torch.float16), torch.finfo(torch.bfloat16)
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@functools.cache
def stall() -> Data:
    """The loss of a linear regression over the steps: in fp32, in fp16 with fp32 masters, in fp16 alone."""
    losses = {kind: _regression(kind) for kind in ("fp32", "mixed", "fp16")}
    return Data(range(STEPS + 1), losses)


def _regression(kind: str) -> list[float]:
    random = torch.Generator().manual_seed(0)
    x, right = torch.randn(64, 16, generator=random), NEAR + torch.randn(16, 1, generator=random)
    model = nn.Linear(16, 1, bias=False)
    nn.init.constant_(model.weight, NEAR)
    mixed = MixedPrecision(model, lambda masters: torch.optim.SGD(masters, RATE), "fp16") if kind == "mixed" else None
    model = model.half() if kind == "fp16" else model
    optimizer = mixed or torch.optim.SGD(model.parameters(), RATE)
    losses = []
    for _ in range(STEPS + 1):
        given = x.half() if kind == "fp16" else x
        loss = (model(given).float() - x @ right).square().mean()
        losses.append(loss.item())
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
    return losses


@functools.cache
def gradients() -> Counter[int]:
    """How many gradients of a small GPT's activations lie between 2^e and 2^(e+1), by e."""
    torch.manual_seed(0)
    model, found = GPT(Config(layers=2, hidden=64, heads=4, vocabulary=512, positions=64)), Counter[int]()

    def count(module: nn.Module, inputs: object, outputs: tuple[Tensor, ...]) -> None:
        exponents = outputs[0].abs().log2().floor()
        values, many = exponents[exponents.isfinite()].unique(return_counts=True)
        found.update(dict(zip(map(int, values.tolist()), many.tolist(), strict=True)))

    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.register_full_backward_hook(count)
    tokens = torch.randint(512, (128, 65))
    loss, valid = cross_entropy(model(tokens[:, :-1]), tokens[:, 1:])
    (loss / valid).backward()
    return found


def sizes() -> list[Bar]:
    """Those gradients as bars: in range, with fewer bits, and lost in fp16."""
    found = gradients()
    most, normal, smallest = found.total(), *_edges()
    kept = [e for e in found if found[e] / most > 0.0005]
    kinds = [(e, 0 if e >= normal else 1 if e >= smallest - 1 else 2) for e in range(min(kept), max(kept) + 1)]
    return [Bar("2" + str(e).translate(_RAISED), found[e] / most, kind) for e, kind in kinds]


def _edges() -> tuple[int, int]:
    """Exponents of the smallest number of fp16 with all of its bits, and of the smallest at all."""
    return _exponent(HALF), _exponent(HALF) - _bits(HALF)


def _bits(kind: torch.finfo) -> int:
    """Of its fraction."""
    return -round(math.log2(kind.eps))


def _exponent(kind: torch.finfo) -> int:
    """Of the smallest number with all of its bits."""
    return round(math.log2(kind.smallest_normal))


def _lost(scale: float) -> float:
    """The share of the gradients that fp16 rounds to zero when they are multiplied by this."""
    found, least = gradients(), _edges()[1] - 1 - round(math.log2(scale))
    return sum(many for e, many in found.items() if e < least) / found.total()


def _few() -> float:
    """The share of them for which fp16 has fewer bits."""
    return sum(bar.share for bar in sizes() if bar.kind == 1)


def facts() -> dict[str, str | int | float]:
    """See ``lesson13.toml``."""
    defaults = {name: one.default for name, one in inspect.signature(torch.amp.GradScaler).parameters.items()}
    walked = torch.ones((), dtype=torch.float16)
    for _ in range(TIMES):
        walked += UPDATE
    model, chip, scale = MODELS["gpt2-xl"], CHIPS["h100"], LossScale()
    skipped = 0
    while scale.value > FITTING:
        scale.update(overflow=True)
        skipped += 1
    losses = stall().curves
    known: dict[str, str | int | float] = {
        "chip": "H100",
        "ratio": f"{chip.speed('fp16') / chip.speed('fp32'):.0f}",
        "bits": _bits(HALF),
        "exponent": f"−{-_exponent(HALF)}",
        "brain_bits": _bits(BRAIN),
        "brain_exponent": f"−{-_exponent(BRAIN)}",
        "largest": f"{HALF.max:g}",
        "smallest": f"{HALF.smallest_normal * HALF.eps:.0e}",
        "brain_largest": f"{BRAIN.max:.0e}",
        "brain_smallest": f"{BRAIN.smallest_normal * BRAIN.eps:.0e}",
        "spacing_1": f"{HALF.eps:.2g}",
        "brain_spacing_1": f"{BRAIN.eps:.2g}",
        "half_1": f"{HALF.eps / 2:.2g}",
        "brain_half_1": f"{BRAIN.eps / 2:.2g}",
        "update": f"{UPDATE:g}",
        "times": TIMES,
        "sum": f"{1 + TIMES * UPDATE:g}",
        "lost": f"{_lost(1.0):.0%}",
        "few": f"{_few():.0%}",
        "scale": f"{SCALE:g}",
        "lost_scaled": f"{_lost(SCALE):.2%}",
        "steps": STEPS,
        "loss_fp32": f"{losses['fp32'][-1]:.2g}",
        "loss_mixed": f"{losses['mixed'][-1]:.2g}",
        "loss_fp16": f"{losses['fp16'][-1]:.2g}",
        "mixed_bytes": f"{MIXED.total:g}",
        "full_bytes": f"{FULL.total:g}",
        "model": "GPT-2 XL",
        "parameters": show_count(total(model)),
        "states": show_gigabytes(state_bytes(total(model)).total),
        "init": f"{defaults['init_scale']:g}",
        "interval": int(defaults["growth_interval"]),
        "quiz_weight": 8,
        "quiz_update": "0.003",
        "quiz_spacing": f"{8 * HALF.eps:.2g}",
        "calculate_gradient": f"{LARGEST_GRADIENT:g}",
        "calculate_fitting": f"{FITTING:g}",
        "product": f"{LARGEST_GRADIENT * _fits():.0f}",
        "predict_answer": float(walked),
        "predict_tolerance": 0.0,
        "calculate_1_answer": _fits(),
        "calculate_1_tolerance": 0.0,
        "calculate_2_answer": skipped,
        "calculate_2_tolerance": 0.0,
    }
    return known


def _fits() -> float:
    """The largest power of two by which the largest gradient may be multiplied."""
    return 2.0 ** math.floor(math.log2(HALF.max / LARGEST_GRADIENT))
