"""One call of a collective: what was asked for, what is kept for the next of its kind, and how far it has come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeAlias

import torch

from .executor import Progress
from .flight.entry import Entry
from .layout import SCRATCH, Layout
from .plan import Plan
from .reduction import Combine
from .schedule import Schedule

Seconds: TypeAlias = float | timedelta


def in_seconds(timeout: Seconds) -> float:
    """A timeout in seconds; ``ValueError`` for anything but a length of time."""
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if not isinstance(seconds, (int, float)) or not seconds > 0:
        raise ValueError(f"timeout={timeout!r}: give seconds (or a timedelta) above 0, or None for the group's own")
    return float(seconds)


@dataclass(slots=True)
class Description:
    """What all ranks must agree on; called, it says so in words, the same on every rank that makes the same call.

    shape, dtype: of the tensor, where there is one and ranks may not differ on it. It holds no tensor, so it may be
    kept, and costs next to nothing until it is asked.
    """

    collective: str
    shape: Sequence[int] | None = None
    dtype: torch.dtype | None = None
    words: tuple[str, ...] = ()

    @classmethod
    def of(cls, collective: str, tensor: torch.Tensor, *words: str, shape: bool = True) -> Description:
        return cls(collective, tensor.shape if shape else None, tensor.dtype, words)

    @property
    def dtype_name(self) -> str:
        """``float32``, or nothing."""
        return "" if self.dtype is None else str(self.dtype).removeprefix("torch.")

    def __call__(self) -> str:
        size = None if self.shape is None else "×".join(map(str, self.shape)) or "a scalar"
        of = " ".join(filter(None, (size, self.dtype_name)))
        return ", ".join([f"{self.collective} of {of}" if of else self.collective, *self.words])


@dataclass(slots=True)
class Call:
    """One call of a collective, checked and ready to run.

    tensors: the caller's, flat and contiguous, numbered as ``layout`` numbers them; after: runs when all is done.
    describe: says in words what the ranks must agree on; nbytes: the whole buffer.
    splits: elements given to and taken from every rank, where they may differ.
    inference: some tensor was made in inference mode, and can be written in it alone.
    entry: of the flight record, if one is kept.
    """

    collective: str
    algorithm: str | Schedule
    layout: Layout
    tensors: Sequence[torch.Tensor]
    nbytes: int
    describe: Description
    root: int = 0
    combine: Combine | None = None
    after: Callable[[], None] | None = None
    splits: tuple[list[int], list[int]] | None = None
    inference: bool = False
    entry: Entry | None = None


@dataclass(slots=True, eq=False)
class Prepared:
    """What calls of one kind share; itself, it stands for the kind.

    algorithm: the schedule's name; plan: this rank's part; seeds: a hash of the kind for each channel's tags.
    views: the plan's regions, as far as they lie in ``scratch``.
    """

    algorithm: str
    plan: Plan
    seeds: list[int]
    scratch: torch.Tensor | None = None
    views: list[torch.Tensor] = field(default_factory=list)

    def regions(self, tensors: Sequence[torch.Tensor], scratch: torch.Tensor) -> list[torch.Tensor]:
        """The plan's regions as flat views of the caller's tensors (each contiguous and flat) and of scratch."""
        if self.scratch is not scratch:
            self.scratch = scratch
            self.views = [
                scratch.narrow(0, r.offset, r.length) if r.tensor == SCRATCH else scratch for r in self.plan.regions
            ]
        regions = self.views.copy()
        for number, (tensor, offset, length) in self.plan.own:
            whole = tensors[tensor]
            regions[number] = whole if whole.numel() == length else whole.narrow(0, offset, length)
        return regions


@dataclass(slots=True)
class Running:
    """The streaming operation under way, until when, and where each of its teams is."""

    call: Call
    algorithm: str
    deadline: float
    teams: list[Progress]
