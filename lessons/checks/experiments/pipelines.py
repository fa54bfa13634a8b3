"""What the pipelines of lessons 22 and 24 are held against: the same layers, one behind the other in one process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ..experiment import Example, Experiment


class Batch(NamedTuple):
    """So many rows, and how many of them make a microbatch."""

    rows: int
    microbatch: int
    width: int = 3


BATCHES = (Batch(7, 3), Batch(6, 2), Batch(4, 4), Batch(3, 1))  # the last microbatch of the first is smaller
_BYTES = 8  # of a float64
Weigh = Callable[[int, int, int], float]  # (rows of a microbatch, of the batch, microbatches) → of its summed loss


def _stage(rank: int, width: int) -> nn.Module:
    """A rank's layers, the same in every process."""
    layer = nn.Linear(width, width, dtype=torch.float64)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(_drawn(1 + rank, *parameter.shape))
    return nn.Sequential(layer, nn.Tanh())


def _drawn(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _step_arguments(batch: Batch, rank: int, ranks: int) -> tuple[Any, ...]:
    inputs, targets = _drawn(100, 2, batch.rows, batch.width)
    return _stage(rank, batch.width), inputs, targets, batch.microbatch


def _step_outcome(arguments: tuple[Any, ...], value: Any) -> Any:
    """The gradients of a rank's stage; on the last rank also the loss."""
    gradients = {name: parameter.grad for name, parameter in arguments[0].named_parameters()}
    is_last = dist.get_rank() == dist.get_world_size() - 1
    return {"gradients": gradients, **({"loss": value} if is_last else {})}


def _step(
    weigh: Weigh, trained: slice = slice(None), told: slice = slice(None), seen: slice = slice(None)
) -> Callable[[Example, int], Sequence[Any]]:
    """Outcomes where each microbatch's summed loss counts as ``weigh`` says.

    trained: the microbatches whose gradients stay; told: those whose loss is returned; seen: those that are computed.
    """

    def outcomes(batch: Batch, ranks: int) -> list[Any]:
        stages = [_stage(rank, batch.width) for rank in range(ranks)]
        _, inputs, targets, _ = _step_arguments(batch, 0, ranks)
        pieces = list(zip(inputs.split(batch.microbatch), targets.split(batch.microbatch), strict=True))[seen]
        output = nn.Sequential(*stages)
        losses = [
            ((output(piece) - target) ** 2).sum() * weigh(len(piece), batch.rows, len(pieces))
            for piece, target in pieces
        ]
        torch.stack(losses[trained]).sum().backward()
        loss = torch.stack(losses[told]).sum().item()
        return [
            {
                "gradients": {name: parameter.grad for name, parameter in stage.named_parameters()},
                **({"loss": loss} if rank == ranks - 1 else {}),
            }
            for rank, stage in enumerate(stages)
        ]

    return outcomes


def _without_gradients(right: Callable[[Example, int], Sequence[Any]]) -> Callable[[Example, int], Sequence[Any]]:
    """Only the last rank has any."""

    def outcomes(batch: Batch, ranks: int) -> list[Any]:
        *others, last = right(batch, ranks)
        return [*({"gradients": dict.fromkeys(one["gradients"])} for one in others), last]

    return outcomes


def _tail(batch: Batch, ranks: int) -> Sequence[Any]:
    """The microbatch that is not full is left out."""
    full = batch.rows // batch.microbatch
    return _step(lambda rows, every, count: 1 / every, seen=slice(full))(batch, ranks)


def _tail_left_out(batch: Batch, ranks: int) -> Sequence[Any]:
    """And the mean is over what is left."""
    full = batch.rows // batch.microbatch
    return _step(lambda rows, every, count: 1 / (full * batch.microbatch), seen=slice(full))(batch, ranks)


def _mean(rows: int, every: int, count: int) -> float:
    """The mean over the whole batch."""
    return 1 / every


_RIGHT = _step(_mean)
_STEP = Experiment(
    examples=lambda ranks: BATCHES,
    arguments=_step_arguments,
    outcome=_step_outcome,
    expected=_RIGHT,
    sent=lambda batch, ranks: _BYTES * batch.rows * batch.width * (2 if ranks > 2 else 1),
    mistakes={
        "pipelines.pipeline_step.mean_of_means": _step(lambda rows, every, count: 1 / rows / count),
        "pipelines.pipeline_step.sum_of_means": _step(lambda rows, every, count: 1 / rows),
        "pipelines.pipeline_step.sum": _step(lambda rows, every, count: 1.0),
        "pipelines.pipeline_step.sum_over_microbatches": _step(lambda rows, every, count: 1 / count),
        "pipelines.pipeline_step.averaged_twice": _step(lambda rows, every, count: 1 / every / count),
        "pipelines.pipeline_step.overwritten": _step(_mean, trained=slice(-1, None)),
        "pipelines.pipeline_step.first_only": _step(_mean, trained=slice(1)),
        "pipelines.pipeline_step.last_loss": _step(_mean, told=slice(-1, None)),
        "pipelines.pipeline_step.tail": _tail,
        "pipelines.pipeline_step.tail_left_out": _tail_left_out,
        "pipelines.pipeline_step.elements": _step(lambda rows, every, count: 1 / every / BATCHES[0].width),
        "pipelines.pipeline_step.elements_each": _step(lambda rows, every, count: 1 / rows / BATCHES[0].width),
        "pipelines.pipeline_step.elements_means": _step(lambda rows, every, count: 1 / rows / count / BATCHES[0].width),
        "pipelines.pipeline_step.no_gradients": _without_gradients(_RIGHT),
    },
)

# lesson 24: one linear layer on each rank


def _halves_arguments(rows: int, rank: int, ranks: int) -> tuple[Any, ...]:
    """What a rank kept of the forward, its weight, and on the last rank the gradient of the output."""
    x, width = _drawn(50, rows, 3), 3
    for before in range(rank):
        x = x @ _drawn(60 + before, width, width).T
    return x, _drawn(60 + rank, width, width), _drawn(70, rows, width) if rank == ranks - 1 else None


Back = Callable[[Tensor, Tensor], Tensor]  # (gradient of the output, weight) → of the input
Weight = Callable[[Tensor, Tensor, Tensor], Tensor]  # (x, gradient of the output, of the input) → of the weight


def _halves(
    back: Back = lambda gradient, weight: gradient @ weight,
    own: Weight = lambda x, gradient, passed: gradient.T @ x,
) -> Callable[[Example, int], Sequence[Any]]:
    def outcomes(rows: int, ranks: int) -> list[Tensor]:
        *_, gradient = _halves_arguments(rows, ranks - 1, ranks)
        found = []
        for rank in reversed(range(ranks)):
            x, weight, _ = _halves_arguments(rows, rank, ranks)
            passed = back(gradient, weight)
            found.append(own(x, gradient, passed))
            gradient = passed
        return found[::-1]

    return outcomes


_HALVES = Experiment(
    examples=lambda ranks: (4, 1, 5),
    arguments=_halves_arguments,
    expected=_halves(),
    sent=lambda rows, ranks: _BYTES * rows * 3,
    mistakes={
        "pipelines.backward_in_two.transposed": _halves(own=lambda x, gradient, passed: x.T @ gradient),
        "pipelines.backward_in_two.own_weight": _halves(back=lambda gradient, weight: gradient @ weight.T),
        "pipelines.backward_in_two.passed_on": _halves(back=lambda gradient, weight: gradient),
        "pipelines.backward_in_two.of_input": _halves(own=lambda x, gradient, passed: passed.T @ x),
        "pipelines.backward_in_two.mean": _halves(own=lambda x, gradient, passed: gradient.T @ x / len(x)),
        "pipelines.backward_in_two.input_returned": _halves(own=lambda x, gradient, passed: passed),
        "pipelines.backward_in_two.both": _halves(
            back=lambda gradient, weight: gradient @ weight.T, own=lambda x, gradient, passed: x.T @ gradient
        ),
    },
)

PIPELINES: Mapping[str, Experiment] = {"pipeline_step": _STEP, "backward_in_two": _HALVES}
