"""Where a collective's data lie in the caller's tensors: regions of flat tensors, one a block of the buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

SCRATCH = -1  # the tensor number of the communicator's own memory


class Region(NamedTuple):
    """``length`` elements from ``offset`` on, of tensor number ``tensor`` (``SCRATCH``: the communicator's own)."""

    tensor: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Layout:
    """One rank's view of a call.

    lengths: elements of every block (one block for all_reduce, reduce, broadcast and barrier).
    inputs: per block, where its data lie at first; None where this rank has none.
    outputs: per block, where its data must lie in the end; None where this rank gets none.

    A block whose input and output are the same region is worked on in place; any other input is never written.
    """

    lengths: tuple[int, ...]
    inputs: tuple[Region | None, ...]
    outputs: tuple[Region | None, ...]


def cut(length: int, parts: int, part: int) -> tuple[int, int]:
    """Offset and length of one of ``parts`` near-equal parts; the first ones are an element longer."""
    whole, more = divmod(length, parts)
    return part * whole + min(part, more), whole + (part < more)


@lru_cache(maxsize=1024)
def in_place(length: int, reads: bool = True, writes: bool = True) -> Layout:
    """One block in tensor 0: all_reduce, broadcast, reduce, barrier."""
    region = Region(0, 0, length)
    return Layout((length,), (region if reads else None,), (region if writes else None,))


def flat(tensor: int, lengths: Sequence[int]) -> tuple[Region, ...]:
    """Blocks that lie one after another in one tensor."""
    regions, offset = [], 0
    for length in lengths:
        regions.append(Region(tensor, offset, length))
        offset += length
    return tuple(regions)


def separate(first: int, lengths: Sequence[int]) -> tuple[Region, ...]:
    """Blocks that are tensors of their own, numbered from ``first`` on."""
    return tuple(Region(first + i, 0, length) for i, length in enumerate(lengths))


def only(block: int, region: Region, blocks: int) -> tuple[Region | None, ...]:
    """One block of many."""
    return tuple(region if b == block else None for b in range(blocks))
