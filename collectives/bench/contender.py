"""One collective at one size: its tensors, our calls and the backend's own on them, and whether the result is right."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_process_group_store

import collectives

from ..pattern import Pattern, count_wrong, fill
from ..schedule import Schedule
from .wire import wire

_LATE = 0.003  # seconds by which a rank is late for a barrier that is checked


@dataclass(frozen=True)
class Problem:
    """What to do: the same on all ranks, save ``rank``.

    count: elements of the buffer, or of one block where it has one a rank. redop: ``none`` where nothing is reduced.
    group: None for all ranks; root, rank and ranks are those within it.
    """

    collective: str
    dtype: torch.dtype
    redop: str
    root: int
    rank: int
    ranks: int
    count: int
    device: torch.device
    group: dist.ProcessGroup | None = None

    @property
    def in_place(self) -> bool:
        return self.collective in ("all_reduce", "reduce", "broadcast")

    @property
    def global_root(self) -> int:
        return self.root if self.group is None else dist.get_global_rank(self.group, self.root)

    @property
    def op(self) -> Any:
        return getattr(dist.ReduceOp, {"prod": "PRODUCT"}.get(self.redop, self.redop.upper()))


@dataclass
class Operands:
    """A rank's tensors; ``given`` is read and ``result`` written. None where this rank has none."""

    problem: Problem
    given: torch.Tensor | None = field(init=False, default=None)
    result: torch.Tensor | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        p = self.problem
        whole, mine = p.count * p.ranks, p.rank == p.root
        if p.in_place:
            self.given = self.result = self._make(p.count)
            return
        given = {"all_gather": p.count, "gather": p.count, "scatter": whole if mine else None, "barrier": None}
        result = {"reduce_scatter": p.count, "scatter": p.count, "gather": whole if mine else None, "barrier": None}
        self.given = self._make(given.get(p.collective, whole))
        self.result = self._make(result.get(p.collective, whole))

    def _make(self, elements: int | None) -> torch.Tensor | None:
        if elements is None:
            return None
        return torch.zeros(elements, dtype=self.problem.dtype, device=self.problem.device)

    def clear(self) -> None:
        """Zeros: sums that are made in place again and again stay finite."""
        for tensor in (self.given, self.result):
            if tensor is not None:
                tensor.zero_()

    # The calls.

    def ours(self, algorithm: str | Schedule) -> Callable[[], object]:
        """Our collective with this algorithm."""
        return self._call(collectives, {"algorithm": algorithm, "group": self.problem.group})

    def native(self, group: dist.ProcessGroup | None = None) -> Callable[[], object]:
        """The backend's own, in another group of the same ranks if one is given."""
        return self._call(dist, {"group": group or self.problem.group})

    def wire(self, orders: Sequence[Sequence[int]]) -> Callable[[], object] | None:
        """What the rings of the collective move; None if it has none. It writes to neither tensor."""
        p = self.problem
        source = self.result if p.collective == "reduce_scatter" else self.given
        if source is None:
            return None
        share = -(-p.count // p.ranks) if p.collective == "all_reduce" else p.count
        return wire(p.collective, source[:share], p.group, orders)

    def _call(self, library: Any, options: dict[str, Any]) -> Callable[[], object]:
        """The functions of ``torch.distributed``, which our library has under the same names.

        torch 2.13 has renamed two; the old names still work there, but warn, and cost time.
        """
        p = self.problem
        match p.collective:
            case "barrier":
                return partial(library.barrier, **options)
            case "all_reduce":
                return partial(library.all_reduce, self.given, p.op, **options)
            case "reduce":
                return partial(library.reduce, self.given, p.global_root, p.op, **options)
            case "broadcast":
                return partial(library.broadcast, self.given, p.global_root, **options)
            case "all_gather":
                call = getattr(library, "all_gather_single", None) or library.all_gather_into_tensor
                return partial(call, self.result, self.given, **options)
            case "reduce_scatter":
                call = getattr(library, "reduce_scatter_single", None) or library.reduce_scatter_tensor
                return partial(call, self.result, self.given, p.op, **options)
            case "gather":
                return partial(library.gather, self.given, self._blocks(self.result), p.global_root, **options)
            case "scatter":
                return partial(library.scatter, self.result, self._blocks(self.given), p.global_root, **options)
            case "all_to_all":
                return partial(library.all_to_all_single, self.result, self.given, **options)
        raise ValueError(f"collective {p.collective!r} has no call here")

    def _blocks(self, tensor: torch.Tensor | None) -> list[torch.Tensor] | None:
        count = self.problem.count
        return None if tensor is None else [tensor.narrow(0, r * count, count) for r in range(self.problem.ranks)]

    # The check.

    def prepare(self) -> None:
        """Fill what is read with this rank's data, and what is written with rubbish."""
        p = self.problem
        if self.result is not None:
            self.result.fill_(113)
        if self.given is not None and (p.collective != "broadcast" or p.rank == p.root):
            fill(self.given, self._pattern().contribution(p.rank))

    def wrong(self, strict: bool = True) -> int:
        """Wrong elements on this rank after a call on what ``prepare`` has filled in.

        Args:
            strict: ours: the inputs must be as they were, and averages exact. A backend may scratch the buffers of a
                reduce that do not get the result, and may multiply by 1/n before it adds (NCCL does).
        """
        p, pattern = self.problem, self._pattern()
        count, ulps = p.count, 0 if strict or p.redop != "avg" else p.ranks
        wrong = 0
        if strict and self.given is not None and (not p.in_place or (p.collective == "reduce" and p.rank != p.root)):
            wrong += count_wrong(self.given, pattern.contribution(p.rank))
        if self.result is None or (p.collective == "reduce" and p.rank != p.root):
            return wrong
        match p.collective:
            case "all_reduce" | "reduce":
                wrong += count_wrong(self.result, pattern.combined(), 0, ulps)
            case "reduce_scatter":
                wrong += count_wrong(self.result, pattern.combined(), p.rank * count, ulps)
            case "broadcast":
                wrong += count_wrong(self.result, pattern.contribution(p.root))
            case "scatter":
                wrong += count_wrong(self.result, pattern.contribution(p.root), p.rank * count)
            case _:  # all_gather and gather: rank r's block; all_to_all: its block for this rank
                offset = p.rank * count if p.collective == "all_to_all" else 0
                for rank, block in enumerate(self._blocks(self.result) or ()):
                    wrong += count_wrong(block, pattern.contribution(rank), offset)
        return wrong

    def _pattern(self) -> Pattern:
        p = self.problem
        return Pattern(p.redop, p.ranks, p.dtype, p.device)


def check(operands: Operands, call: Callable[[], object], strict: bool, word: str) -> int:
    """Wrong elements on this rank, for one call on fresh data; all ranks make it together.

    Args:
        word: anything that is the same on all ranks and was not used before.
    """
    if operands.problem.collective == "barrier":
        return _early(operands.problem, call, word)
    operands.prepare()
    call()
    return operands.wrong(strict)


def _early(problem: Problem, call: Callable[[], object], word: str) -> int:
    """How often this rank left a barrier before a rank that came late had come; each of up to 8 ranks is late once.

    The late rank leaves a word in the store of the group before it comes. No clocks are compared.
    """
    group = problem.group or dist.group.WORLD
    assert group is not None
    store = _get_process_group_store(group)
    early = 0
    for late in range(min(problem.ranks, 8)):
        key = f"collectives/bench/{word}/{late}"
        if problem.rank == late:
            time.sleep(_LATE)
            store.set(key, "here")
        call()
        if problem.device.type == "cuda":
            torch.cuda.synchronize()
        early += not store.check([key])
    return early
