"""Lesson 28: a run that stops, and another one that goes on as if it never had."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..experiment import Example, Experiment

AFTER = 3  # steps of the run that goes on


def _drawn(elements: int, seed: int) -> Tensor:
    return torch.randn(elements, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@dataclass
class Run:
    """A training run of one rank, with all that its next step depends on."""

    rows: Tensor
    weight: Tensor
    optimizer: torch.optim.Optimizer
    generator: torch.Generator
    position: int = 0
    step: int = 0

    @classmethod
    def begin(cls, elements: int, rank: int) -> Run:
        weight = _drawn(elements, 1)
        rows = torch.stack([_drawn(elements, 60 + 10 * rank + number) for number in range(7)])
        optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
        return cls(rows, weight, optimizer, torch.Generator().manual_seed(rank))

    def train(self, steps: int) -> None:
        """Towards the rows, one a step, through a dropout, with a rate that falls."""
        for _ in range(steps):
            row = self.rows[self.position % len(self.rows)]
            kept = torch.rand(self.weight.shape, generator=self.generator, dtype=torch.float64) < 0.5
            self.weight.grad = (self.weight - row) * kept
            self.optimizer.param_groups[0]["lr"] = 0.1 / (1 + self.step)
            self.optimizer.step()
            self.position, self.step = self.position + 1, self.step + 1


def _over_arguments(example: Example, rank: int, size: int) -> tuple[Run, Run, Path]:
    elements, before = example
    old, new = Run.begin(elements, rank), Run.begin(elements, rank)
    old.train(before)
    return old, new, Path(tempfile.mkdtemp(prefix="lesson-")) / "run.pt"


def _went_on(arguments: tuple[Run, Run, Path], value: Any) -> Tensor:
    _, new, path = arguments
    shutil.rmtree(path.parent)
    new.train(AFTER)
    return new.weight


def _going_on(
    example: Example, size: int, without: Sequence[str] = (), stream: Callable[[int], int] = lambda rank: rank
) -> list[Tensor]:
    """without: what of a run does not come along. stream: whose random numbers a rank goes on with."""
    elements, before = example
    olds = [Run.begin(elements, rank) for rank in range(size)]
    for old in olds:
        old.train(before)
    found = []
    for rank, old in enumerate(olds):
        new = Run.begin(elements, rank)
        if "weight" not in without:
            new.weight.copy_(old.weight)
        if "optimizer" not in without:
            new.optimizer.load_state_dict(old.optimizer.state_dict())
        if "random" not in without:
            new.generator.set_state(olds[stream(rank)].generator.get_state())
        if "position" not in without:
            new.position = old.position
        if "step" not in without:
            new.step = old.step
        found.append(new)
    for run in found:
        run.train(AFTER)
    return [run.weight for run in found]


RESUMED: Mapping[str, Experiment] = {
    "hand_over": Experiment(
        examples=lambda size: ((5, 4), (3, 9)),
        arguments=_over_arguments,
        optimizes=True,
        outcome=_went_on,
        expected=_going_on,
        mistakes={
            "zero.hand_over.random": partial(_going_on, without=("random",)),
            "zero.hand_over.optimizer": partial(_going_on, without=("optimizer",)),
            "zero.hand_over.position": partial(_going_on, without=("position",)),
            "zero.hand_over.step": partial(_going_on, without=("step",)),
            "zero.hand_over.weight": partial(_going_on, without=("weight",)),
            "zero.hand_over.usual": partial(_going_on, without=("random", "position", "step")),
            "zero.hand_over.weight_only": partial(_going_on, without=("optimizer", "random", "position", "step")),
            "zero.hand_over.random_and_position": partial(_going_on, without=("random", "position")),
            "zero.hand_over.nothing": partial(_going_on, without=("weight", "optimizer", "random", "position", "step")),
            "zero.hand_over.one_for_all": partial(_going_on, stream=lambda rank: 0),
        },
        tolerance=0.0,
    ),
}
