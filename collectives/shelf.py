"""What a communicator keeps from one call to the next: proved schedules, compiled plans, scratch memory."""

from __future__ import annotations

import zlib
from typing import Any, TypeVar

import torch

from .call import Prepared
from .combinators import rooted
from .compiler import compile_plan
from .layout import Layout
from .proof import PROVED_UP_TO, prove
from .registry import find
from .schedule import Schedule

# A lone channel receives a step ahead chunks up to this size; the second buffer of larger ones costs more cache than
# that is worth. Channels that take turns do so always.
AHEAD_BYTES = 1 << 19

T = TypeVar("T")


class Shelf:
    """For one rank of a group.

    Args:
        number: of the communicator, among those of its group.
        streaming: whether a wait blocks (gloo) or only orders streams (NCCL).
    """

    def __init__(self, number: int, rank: int, size: int, streaming: bool) -> None:
        self._number, self._rank, self._size, self._streaming = number, rank, size, streaming
        self._schedules: dict[Any, tuple[Schedule, bool]] = {}
        self.prepared: dict[Any, Prepared] = {}
        self.memory: dict[tuple[torch.device, torch.dtype], torch.Tensor] = {}

    def _schedule(self, collective: str, algorithm: str | Schedule, root: int) -> tuple[Schedule, bool]:
        """The schedule with that root, looked up and proved once, and whether it runs in lockstep."""
        key = collective, algorithm, root
        found = self._schedules.get(key)
        if found is None:
            schedule = find(collective, algorithm)
            lockstep = self._size <= PROVED_UP_TO and prove(schedule, self._size).lockstep
            found = _remember(self._schedules, key, (rooted(schedule, root, self._size), lockstep))
        return found

    def prepare(
        self, collective: str, algorithm: str | Schedule, root: int, layout: Layout, dtype: torch.dtype
    ) -> Prepared:
        """The plan of this rank for such a call, compiled once.

        Raises:
            ValueError: the algorithm does not exist, is wrong, or does not fit.
        """
        key = collective, algorithm, root, layout, dtype
        prepared = self.prepared.get(key)
        if prepared is None:
            schedule, lockstep = self._schedule(collective, algorithm, root)
            chunk = sum(layout.lengths) * dtype.itemsize / schedule.channels / schedule.chunk_count(self._size)
            ahead = 1 if self._streaming and (schedule.channels > 1 or chunk <= AHEAD_BYTES) else 0
            plan = compile_plan(schedule, self._rank, self._size, layout, ahead, self._streaming, lockstep)
            kind = f"{self._number}|{collective}|{schedule}|{root}|{dtype}"
            seeds = [zlib.crc32(f"{kind}|{i}".encode()) for i in range(schedule.channels)]
            prepared = _remember(self.prepared, key, Prepared(str(schedule), plan, seeds))
        return prepared

    def scratch(self, like: torch.Tensor, elements: int) -> torch.Tensor:
        """Memory for ``like``'s device and dtype; grown when needed, never shrunk."""
        key = like.device, like.dtype
        held = self.memory.get(key)
        if held is None or held.numel() < elements:
            if held is not None and held.is_cuda:
                torch.cuda.synchronize(held.device)  # an operation under way may still use it
            with torch.inference_mode(False):  # it outlives the call, which may be inside
                held = torch.empty(max(elements, 1024), dtype=like.dtype, device=like.device)
            self.memory[key] = held
            for prepared in list(self.prepared.values()):  # another thread may be preparing the next call meanwhile
                prepared.scratch, prepared.views = None, []  # views would keep the old memory alive
        return held


def _remember(cache: dict[Any, T], key: Any, value: T) -> T:
    """Put a value into a cache that holds a few hundred; the oldest goes."""
    if len(cache) >= 256:
        del cache[next(iter(cache))]
    cache[key] = value
    return value
