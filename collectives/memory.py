"""Scratch memory at compile time: who needs which part of it, and until when."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from .layout import SCRATCH, Region

ALIGN = 64  # elements: scratch regions start on a cache line for every dtype


class Memory:
    """Numbers for regions, and an allocator of scratch regions with free lists by length."""

    def __init__(self) -> None:
        self.regions: list[Region] = []
        self.numbers: dict[Region, int] = {}
        self.free: defaultdict[int, list[int]] = defaultdict(list)
        self.top = 0

    def number(self, region: Region) -> int:
        if region not in self.numbers:
            self.numbers[region] = len(self.regions)
            self.regions.append(region)
        return self.numbers[region]

    def allocate(self, length: int) -> Region:
        rounded = -(-length // ALIGN) * ALIGN
        if self.free[rounded]:
            offset = self.free[rounded].pop()
        else:
            offset, self.top = self.top, self.top + rounded
        return Region(SCRATCH, offset, length)

    def release(self, region: Region) -> None:
        self.free[-(-region.length // ALIGN) * ALIGN].append(region.offset)


@dataclass(slots=True)
class Held:
    """A scratch allocation and how many of its chunks are still wanted."""

    whole: Region
    users: int = 0

    def drop(self, memory: Memory) -> None:
        """One chunk is no longer wanted; with the last, the memory is free."""
        self.users -= 1
        if self.users == 0:
            memory.release(self.whole)
