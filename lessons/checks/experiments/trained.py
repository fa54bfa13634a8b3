"""Replicas that train for some steps, each on its rows, beside one process on all rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..experiment import Example, Experiment, PerRank


class Counted(nn.Module):
    """Two layers that count the rows which pass through them. Each rank draws its own."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.layers = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
        self.rows = 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.rows += len(inputs)
        outputs: Tensor = self.layers(inputs)
        return outputs


def _trained(model: Counted) -> dict[str, Any]:
    return {"parameters": {name: one.detach() for name, one in model.named_parameters()}, "rows": model.rows}


def _task(example: Example) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(7)
    inputs, targets = (torch.randn(example["rows"], width, generator=draw, dtype=torch.float64) for width in (3, 2))
    return inputs, targets


def _train(
    example: Example,
    seed: int,
    rows: Sequence[int],
    steps: int,
    kept: bool = False,
    counted: int | None = None,
    factor: float = 1.0,
) -> dict[str, Any]:
    """One process, on some of the rows. kept: gradients are not set to zero. counted: rows a step, if others. factor:
    of the loss."""
    model = Counted(seed)
    inputs, targets = _task(example)
    optimizer = torch.optim.SGD(model.parameters(), lr=example["rate"])
    for _ in range(steps):
        if not kept:
            optimizer.zero_grad()
        (factor * functional.mse_loss(model(inputs[list(rows)]), targets[list(rows)])).backward()
        optimizer.step()
    if counted is not None:
        model.rows = counted * steps
    return _trained(model)


def _shares(example: Example, size: int) -> list[range]:
    return [range(rank, example["rows"], size) for rank in range(size)]


def _together(example: Example, size: int, steps: int = 0, **options: Any) -> list[dict[str, Any]]:
    steps, rows = steps or example["steps"], range(example["rows"])
    return [_train(example, 30, rows, steps, counted=len(one), **options) for one in _shares(example, size)]


def _apart(seeds: Callable[[int], int], example: Example, size: int, weighted: bool = False) -> list[dict[str, Any]]:
    """Each rank on its own rows. weighted: with the factor that makes DDP's mean that of all rows."""
    factors = [len(one) * size / example["rows"] if weighted else 1.0 for one in _shares(example, size)]
    return [
        _train(example, seeds(rank), one, example["steps"], factor=factors[rank])
        for rank, one in enumerate(_shares(example, size))
    ]


def _own_starts(example: Example, size: int) -> list[dict[str, Any]]:
    """Gradients are averaged, but every rank takes them from where it began."""
    inputs, targets = _task(example)
    models, shares = [Counted(30 + rank) for rank in range(size)], _shares(example, size)
    for _ in range(example["steps"]):
        totals: list[Tensor] = []
        for model, rows in zip(models, shares, strict=True):
            loss = functional.mse_loss(model(inputs[list(rows)]), targets[list(rows)])
            found = torch.autograd.grad(loss * len(rows) / len(inputs), list(model.parameters()))
            totals = [a + b for a, b in zip(totals, found, strict=True)] if totals else list(found)
        with torch.no_grad():
            for model in models:
                for parameter, total in zip(model.parameters(), totals, strict=True):
                    parameter.sub_(example["rate"] * total)
    return [_trained(model) for model in models]


def _everything(example: Example, size: int) -> list[dict[str, Any]]:
    return [_train(example, 30, range(example["rows"]), example["steps"])] * size


def _short(by: int) -> PerRank:
    return lambda example, size: _together(example, size, steps=example["steps"] + by)


_MISTAKES: Mapping[str, PerRank] = {
    "data_parallel.train_together.everything": _everything,
    "data_parallel.train_together.alone": partial(_apart, lambda rank: 30),
    "data_parallel.train_together.apart": partial(_apart, lambda rank: 30 + rank),
    "data_parallel.train_together.own_starts": _own_starts,
    "data_parallel.train_together.accumulated": partial(_together, kept=True),
    "data_parallel.train_together.step_missing": _short(-1),
    "data_parallel.train_together.step_more": _short(1),
}

TRAIN_TOGETHER = Experiment(
    examples=lambda size: [
        {"rows": 3 * size, "steps": 2, "rate": 0.1},
        {"rows": 3 * size - 1, "steps": 3, "rate": 0.3},
    ],
    arguments=lambda example, rank, size: (Counted(30 + rank), *_task(example), example["steps"], example["rate"]),
    outcome=lambda arguments, value: _trained(arguments[0]),
    expected=_together,
    mistakes=_MISTAKES,
    tolerance=1e-6,
    optimizes=True,
)


def _scaled(weight: Callable[[int, int, int], float], example: Example, size: int) -> list[dict[str, Any]]:
    """DDP's mean over ranks of losses that are multiplied by ``weight(rows of the rank, all rows, ranks)``."""
    inputs, targets = _task(example)
    model, shares = Counted(30), _shares(example, size)
    for _ in range(example["steps"]):
        model.zero_grad()
        for rows in shares:
            share = weight(len(rows), len(inputs), size) / size
            (share * functional.mse_loss(model(inputs[list(rows)]), targets[list(rows)])).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.sub_(example["rate"] * parameter.grad)
    return [{**_trained(model), "rows": len(rows) * example["steps"]} for rows in shares]


TRAIN_ON_RING = Experiment(
    examples=lambda size: [TRAIN_TOGETHER.examples(size)[1]],  # the uneven one: a launch takes longer than a call
    arguments=TRAIN_TOGETHER.arguments,
    outcome=TRAIN_TOGETHER.outcome,
    expected=_together,
    mistakes={
        "data_parallel.train_on_ring.means": partial(_scaled, lambda mine, total, size: 1.0),
        "data_parallel.train_on_ring.no_ranks": partial(_scaled, lambda mine, total, size: mine / total),
        "data_parallel.train_on_ring.no_total": partial(_scaled, lambda mine, total, size: mine),
        "data_parallel.train_on_ring.by_ranks": partial(_scaled, lambda mine, total, size: mine * size),
        "data_parallel.train_on_ring.everything": _everything,
        "data_parallel.train_on_ring.unwrapped": partial(_apart, lambda rank: 30, weighted=True),
        "data_parallel.train_on_ring.unwrapped_means": partial(_apart, lambda rank: 30),
        "data_parallel.train_on_ring.alone": partial(_apart, lambda rank: 30 + rank, weighted=True),
        "data_parallel.train_on_ring.alone_means": partial(_apart, lambda rank: 30 + rank),
        "data_parallel.train_on_ring.accumulated": partial(_together, kept=True),
        "data_parallel.train_on_ring.step_missing": _short(-1),
        "data_parallel.train_on_ring.step_more": _short(1),
    },
    tolerance=1e-6,
    optimizes=True,
)
