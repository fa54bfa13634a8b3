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
PARTS = ("weight", "optimizer", "random", "position", "step")  # of a run, all that its next step depends on


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

    def shares(self, other: Run) -> bool:
        """Whether it has something of another run in memory, and not a copy of it."""
        one = self.generator is other.generator or self.optimizer is other.optimizer
        return one or not self._memory().isdisjoint(other._memory())

    def is_in(self, file: bytes) -> bool:
        """Whether what it holds in tensors stands in a file, as ``torch.save`` and pickle write them."""
        return all(one.numpy().tobytes() in file for one in (*self._tensors(), self.generator.get_state()))

    def _memory(self) -> set[int]:
        return {one.data_ptr() for one in self._tensors()}

    def _tensors(self) -> list[Tensor]:
        states = [one for state in self.optimizer.state.values() for one in state.values()]
        return [one for one in (self.weight, *states) if isinstance(one, Tensor)]


def _seed(rank: int) -> int:
    """Of torch's own random numbers, from which no run draws."""
    return 300 + rank


def _over_arguments(example: Example, rank: int, size: int) -> tuple[Run, Run, Path]:
    elements, before = example
    old, new = Run.begin(elements, rank), Run.begin(elements, rank)
    old.train(before)
    torch.manual_seed(_seed(rank))
    return old, new, Path(tempfile.mkdtemp(prefix="lesson-")) / "run.pt"


def _went_on(arguments: tuple[Run, Run, Path], value: Any) -> Tensor | str:
    old, new, path = arguments
    written = path.read_bytes() if path.is_file() else None
    shutil.rmtree(path.parent)
    if written is None:
        return "no file"
    if new.shares(old):
        return "shared"
    saved = old.is_in(written)
    for run in (old, new):
        run.train(AFTER)
    return "beside" if torch.equal(new.weight, old.weight) and not saved else new.weight


def going_on(
    example: Example,
    size: int,
    without: Sequence[str] = (),
    stream: Callable[[int, Sequence[Run]], Tensor] = lambda rank, olds: olds[rank].generator.get_state(),
) -> list[Tensor]:
    """The weights of all ranks at the end.

    without: the ``PARTS`` of a run that do not come along. stream: the state of the random numbers with which a rank
    goes on.
    """
    olds = _stopped(example, size)
    found = []
    for rank, old in enumerate(olds):
        new = Run.begin(example[0], rank)
        if "weight" not in without:
            new.weight.copy_(old.weight)
        if "optimizer" not in without:
            new.optimizer.load_state_dict(old.optimizer.state_dict())
        if "random" not in without:
            new.generator.set_state(stream(rank, olds))
        if "position" not in without:
            new.position = old.position
        if "step" not in without:
            new.step = old.step
        found.append(new)
    for run in found:
        run.train(AFTER)
    return [run.weight for run in found]


def _stopped(example: Example, size: int) -> list[Run]:
    elements, before = example
    olds = [Run.begin(elements, rank) for rank in range(size)]
    for old in olds:
        old.train(before)
    return olds


def _of_torch(rank: int, olds: Sequence[Run]) -> Tensor:
    """The state of torch's own random numbers."""
    return torch.Generator().manual_seed(_seed(rank)).get_state()


RESUMED: Mapping[str, Experiment] = {
    "hand_over": Experiment(
        examples=lambda size: ((5, 4), (3, 9)),
        arguments=_over_arguments,
        optimizes=True,
        outcome=_went_on,
        expected=going_on,
        mistakes={
            **{f"zero.hand_over.{part}": partial(going_on, without=(part,)) for part in PARTS},
            "zero.hand_over.nothing": partial(going_on, without=PARTS),
            "zero.hand_over.one_for_all": partial(going_on, stream=lambda rank, olds: olds[0].generator.get_state()),
            "zero.hand_over.stream_of_torch": partial(going_on, stream=_of_torch),
            "zero.hand_over.other_tensor": lambda example, size: [old.weight for old in _stopped(example, size)],
            "zero.hand_over.shared": lambda example, size: ["shared"] * size,
            "zero.hand_over.no_file": lambda example, size: ["no file"] * size,
            "zero.hand_over.beside": lambda example, size: ["beside"] * size,
        },
        tolerance=0.0,
    ),
}
