"""The best plans: every admitted plan gets a time and a memory figure, in batches, by the closed forms of
:mod:`sim.planner.step` and :mod:`sim.planner.memory`; the best are run again event by event.

A layer's seconds depend on TP, CP, EP and the microbatch alone: they are computed once for each combination. Overlap
does not change memory. The fullest stage is the first, the second, one behind the dense layers, or the last.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from .admission import AXES, Layouts, Rejected, admitted, layouts_of, take
from .constants import Software
from .hardware import Hardware
from .layout import Layout
from .memory import stage_ledger
from .space import Space
from .step import StepTime, overlapped, step_time
from .timeline import MOST_ACTIONS, actions, pipeline_s
from .transformer import Transformer
from .work import Work, layer_work

BATCH = 4096  # plans at a time: their arrays stay in the processor's cache
RESERVED = 2e9  # bytes a GPU that no plan may use: the CUDA context, libraries, NCCL's buffers
MOST_IN_ALL = 1_000_000  # actions of all pipelines that are run as events: some seconds
SHARED = ("tp", "cp", "ep", "microbatch")  # what a layer's work depends on


@dataclass(frozen=True)
class Plan:
    """seconds of a step and bytes of the fullest GPU; simulated_s: the same step event by event (0: not run)."""

    layout: Layout
    seconds: float
    memory: float
    simulated_s: float = 0.0


@dataclass(frozen=True)
class Found:
    """All plans of a space. batches: layouts of arrays; times, sizes: seconds and bytes of each plan, batch after
    batch; limit: bytes a GPU may hold; seconds: that the search took."""

    space: Space
    batches: list[Layouts]
    times: Any
    sizes: Any
    rejected: list[Rejected]
    limit: float
    seconds: float
    _values: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def evaluated(self) -> int:
        return len(self.times)

    @cached_property
    def fits(self) -> Any:
        """Which of them do."""
        return self.sizes <= self.limit

    @cached_property
    def starts(self) -> Any:
        """Where each batch begins, and the end."""
        return np.cumsum([0, *(len(batch.pp) for batch in self.batches)])

    def values(self, axis: str) -> Any:
        """The axis of every plan: numbers, or for what is no number its place among the axis's values."""
        if axis not in self._values:
            self._values[axis] = np.concatenate([self._of(batch, axis) for batch in self.batches])
        return self._values[axis]

    def _of(self, batch: Layouts, axis: str) -> Any:
        value = getattr(batch, axis)
        if isinstance(value, np.ndarray):
            return value
        return np.full(len(batch.pp), getattr(self.space, axis).index(value), dtype=np.int8)

    def plan(self, number: int) -> Plan:
        batch = int(np.searchsorted(self.starts, number, side="right")) - 1
        layout = next(layouts_of(self.batches[batch], [number - int(self.starts[batch])]))
        return Plan(layout, float(self.times[number]), float(self.sizes[number]))

    def best(self, count: int, which: Any = None) -> list[int]:
        """Numbers of the fastest plans that fit, of these; of equally fast ones the smallest first."""
        numbers = np.flatnonzero(self.fits if which is None else self.fits & which)
        if len(numbers) > 4 * count:
            near = np.partition(self.times[numbers], count - 1)[count - 1]
            numbers = numbers[self.times[numbers] <= near]
        order = np.lexsort((self.sizes[numbers], self.times[numbers]))
        return [int(number) for number in numbers[order][:count]]

    def pareto(self) -> list[int]:
        """Numbers of the plans than which none is both faster and smaller, the fastest first."""
        order = np.lexsort((self.sizes, self.times))
        sizes = self.sizes[order]
        before = np.concatenate(([np.inf], np.minimum.accumulate(sizes)[:-1]))
        return [int(number) for number in order[(sizes < before) & self.fits[order]]]


def search(
    model: Transformer,
    space: Space,
    hardware: Hardware,
    software: Software,
    limit: float = 0.0,
    done: Callable[[int, int], None] = lambda number, of: None,
) -> Found:
    """Every plan of the space. O(plans).

    Args:
        limit: bytes a GPU may hold (0: its memory, less what no plan may use).
        done: told how many of how many batches are done.
    """
    began = time.perf_counter()
    limit = limit or hardware.chip.memory - RESERVED
    space, choices, rejected = admitted(model, space)
    pieces = [piece for choice in choices for piece in _pieces(choice)]
    works: dict[bool, _Works] = {}
    found: tuple[list[Layouts], list[Any], list[Any]] = ([], [], [])
    with np.errstate(all="ignore"):
        for number, piece in enumerate(pieces):
            if piece.sp not in works:
                works[piece.sp] = _works(model, [p for p in pieces if p.sp == piece.sp], hardware, software)
            first, *others = space.overlap
            batch, size = replace(piece, overlap=first), memory(model, piece)
            step: Any = step_time(model, batch, hardware, software, works[piece.sp].of(piece))
            _add(found, batch, step.time_s, size)
            if others and piece.zero < 3 and (many := piece.replicas > 1).any():  # else it is the same plan
                batch = replace(piece, overlap=others[0])
                step = overlapped(model, batch, hardware, software, step)
                _add(found, take(batch, many), step.time_s[many], size[many])
            done(number + 1, len(pieces))
    times, sizes = (np.concatenate(each) if each else np.zeros(0) for each in found[1:])
    return Found(space, found[0], times, sizes, rejected, limit, time.perf_counter() - began)


def _add(found: tuple[list[Layouts], list[Any], list[Any]], *batch: Any) -> None:
    for column, value in zip(found, batch, strict=True):
        column.append(value)


def memory(model: Transformer, layouts: Layouts) -> Any:
    """Bytes of each plan's fullest GPU: of several stages at once, which costs little more than one."""
    last = layouts.pp - 1
    stages = [*(np.minimum(last, stage) for stage in range(2 + model.dense_layers)), last]
    every = replace(layouts, **{name: np.tile(getattr(layouts, name), len(stages)) for name in AXES})
    together: Any = np.concatenate(stages)
    total: Any = stage_ledger(model, every, together).total
    return total.reshape(len(stages), -1).max(axis=0)


def _pieces(layouts: Layouts) -> Iterator[Layouts]:
    for start in range(0, len(layouts.pp), BATCH):
        yield take(layouts, slice(start, start + BATCH))


@dataclass(frozen=True)
class _Works:
    """The work of every combination of what it depends on, and where each is."""

    work: Work
    keys: Any

    def of(self, layouts: Layouts) -> Work:
        return self.work.take(np.searchsorted(self.keys, _key(layouts)))


def _key(layouts: Layouts) -> Any:
    """One number for TP, CP, EP and the microbatch."""
    return ((layouts.tp * 2**16 + layouts.cp) * 2**12 + layouts.ep) * 2**12 + layouts.microbatch


def _works(model: Transformer, pieces: list[Layouts], hardware: Hardware, software: Software) -> _Works:
    columns = {name: np.concatenate([getattr(piece, name) for piece in pieces]) for name in SHARED}
    every = replace(pieces[0], **columns)
    keys, first = np.unique(_key(every), return_index=True)
    layouts = replace(every, **{name: column[first] for name, column in columns.items()})
    return _Works(layer_work(model, layouts, hardware, software), keys)


def simulated(
    model: Transformer,
    plans: list[Plan],
    hardware: Hardware,
    software: Software,
    done: Callable[[int, int], None] = lambda number, of: None,
) -> tuple[list[Plan], float]:
    """The plans with the time of their events, and the seconds that took. Pipelines that are alike run once; what would
    take long, and what comes when ``MOST_IN_ALL`` actions have run, is left out."""
    began, left = time.perf_counter(), MOST_IN_ALL
    known: dict[Any, float] = {}
    found = []
    for number, plan in enumerate(plans):
        layout = plan.layout
        step = step_time(model, layout, hardware, software)
        key = _pipeline(layout, step)
        if key not in known and actions(layout) <= min(left, MOST_ACTIONS):
            known[key] = pipeline_s(step, layout)
            left -= actions(layout)
        if key in known:
            plan = replace(plan, simulated_s=known[key] + step.after_s)
        found.append(plan)
        done(number + 1, len(plans))
    return found, time.perf_counter() - began


def _pipeline(layout: Layout, step: StepTime) -> tuple[Any, ...]:
    """What a pipeline's events depend on."""
    slots = step.heaviest.as_slot, step.others.as_slot
    return (layout.schedule, layout.pp, layout.microbatches, layout.chunks, step.p2p_s, *slots)
