"""One step of mixed precision where every rank holds other layers, beside one process that holds all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from ..experiment import Experiment

SHAPES = ((2, 3), (5,))  # of the weights of a rank


@dataclass(frozen=True)
class Batch:
    """One example. tiny: 2^tiny is what one output counts in the loss, as in a mean over very many. scale, lr,
    max_norm: arguments of the step. overflows: the last rank's gradients do not fit into fp16."""

    tiny: int
    scale: float
    lr: float
    max_norm: float
    overflows: bool = False


SMALL = Batch(tiny=-24, scale=2.0**12, lr=2.0**11, max_norm=1.0)  # at the very end of fp16, unless it is scaled
LARGE = Batch(tiny=2, scale=2.0**7, lr=2.0**-6, max_norm=2.0)  # longer than max_norm
BEYOND = Batch(tiny=2, scale=2.0**7, lr=2.0**-6, max_norm=2.0, overflows=True)


@dataclass(frozen=True)
class Loss:
    """What a rank's layers make of its data, in fp16; the loss itself is fp32."""

    factors: Sequence[Tensor]
    tiny: int

    def __call__(self, weights: Sequence[Tensor]) -> Tensor:
        outputs = [(weight * factor).float().sum() for weight, factor in zip(weights, self.factors, strict=True)]
        return torch.stack(outputs).sum() * 2.0**self.tiny


def data(batch: Batch, rank: int, size: int) -> tuple[Loss, list[Tensor], list[Tensor]]:
    """The loss, weights (fp16) and masters (fp32) of a rank."""
    random = torch.Generator().manual_seed(1000 * rank + 7)
    masters = [0.5 + 1.5 * torch.rand(shape, generator=random) for shape in SHAPES]
    factors = [(0.5 + 1.5 * torch.rand(shape, generator=random)).half() for shape in SHAPES]
    if batch.overflows and rank == size - 1:
        factors[0][0, 0] = 3000.0
    weights = [master.half().requires_grad_() for master in masters]
    return Loss(factors, batch.tiny), weights, masters


def step(
    batch: Batch,
    size: int,
    *,
    scaled: bool = True,
    unscale: Literal["fp32", "fp16", "no"] = "fp32",
    clip: Literal["all", "own", "roots", "scaled", "always", "never"] = "all",
    skip: Literal["all", "own", "never"] = "all",
    update: Literal["masters", "weights"] = "masters",
    publish: bool = True,
) -> list[Any]:
    """Every rank's outcome, from one process; each argument is a way to go wrong."""
    ranks = [data(batch, rank, size) for rank in range(size)]
    factor = batch.scale if scaled else 1.0
    came = [torch.autograd.grad(loss(weights) * factor, weights) for loss, weights, _ in ranks]
    gradients = [[_true(one, batch.scale, unscale) for one in grads] for grads in came]
    measured = came if clip == "scaled" else gradients
    squares = [sum(float(one.float().square().sum()) for one in grads) for grads in measured]
    everywhere = sum(squares) ** 0.5 if clip != "roots" else sum(one**0.5 for one in squares)
    bad = [not all(bool(one.isfinite().all()) for one in grads) for grads in came]
    outcomes = []
    for rank, (_, weights, masters) in enumerate(ranks):
        left_out = {"all": any(bad), "own": bad[rank], "never": False}[skip]
        norm = squares[rank] ** 0.5 if clip == "own" else everywhere
        shrink = batch.max_norm / norm if clip != "never" else 1.0
        shrink = shrink if clip == "always" else min(1.0, shrink)
        for weight, master, gradient in zip(weights, masters, gradients[rank], strict=True):
            if left_out:
                continue
            with torch.no_grad():
                if update == "weights":
                    weight -= (batch.lr * shrink * gradient).half()
                    master.copy_(weight)
                else:
                    master -= batch.lr * shrink * gradient
                    weight.copy_(master if publish else weight)
        outcomes.append(_outcome((None, weights, masters), not left_out))
    return outcomes


def _true(gradient: Tensor, scale: float, unscale: str) -> Tensor:
    if unscale == "no":
        return gradient.float()
    return gradient.float() / scale if unscale == "fp32" else (gradient / scale).float()


def _arguments(batch: Batch, rank: int, size: int) -> tuple[Any, ...]:
    return *data(batch, rank, size), batch.scale, batch.lr, batch.max_norm


def _outcome(arguments: tuple[Any, ...], value: Any) -> Any:
    """Whether a step was taken, and the weights and masters after it."""
    if value is None:
        return None
    return {"stepped": bool(value), "masters": arguments[2], "weights": [one.detach() for one in arguments[1]]}


def _wrong(**fault: Any) -> Any:
    return partial(step, **fault)


MIXED_STEP = Experiment(
    examples=lambda size: (SMALL, LARGE, BEYOND),
    arguments=_arguments,
    outcome=_outcome,
    expected=step,
    mistakes={
        "memory.mixed_step.clipped_scaled": _wrong(clip="scaled"),
        "memory.mixed_step.skips_alone": _wrong(skip="own"),
        "memory.mixed_step.never_skips": _wrong(skip="never"),
        "memory.mixed_step.not_published": _wrong(publish=False),
        "memory.mixed_step.not_unscaled": _wrong(unscale="no"),
        "memory.mixed_step.not_scaled": _wrong(scaled=False),
        "memory.mixed_step.never_scaled": _wrong(scaled=False, unscale="no"),
        "memory.mixed_step.unscaled_in_half": _wrong(unscale="fp16"),
        "memory.mixed_step.weights_updated": _wrong(update="weights"),
        "memory.mixed_step.own_norm": _wrong(clip="own"),
        "memory.mixed_step.asks_nobody": _wrong(clip="own", skip="own"),
        "memory.mixed_step.norms_added": _wrong(clip="roots"),
        "memory.mixed_step.always_clipped": _wrong(clip="always"),
        "memory.mixed_step.not_clipped": _wrong(clip="never"),
    },
    sent=lambda batch, size: 64.0,  # a norm and a flag
    tolerance=1e-6,
)
