"""Who owns which slice: parameters laid one after another, padded, and cut into one slice a rank.

        a (2×3)      b (4)     c (1)                  11 elements on 4 ranks: 3 a rank, 1 of padding
    ┌─────────────┬─────────┬─────┬╌╌╌╌╌┐
    │ 0 1 2 3 4 5 │ 6 7 8 9 │ 10  │ pad │
    └─────┬───────┼───────┬─┴─────┴╌╌╌╌╌┘
    rank 0│ rank 1│ rank 2│ rank 3                    rank 2 owns all but one of b, rank 3 the rest of b, and c

A slice knows no borders of parameters. What the optimizer gets are *pieces*: the part of each parameter that lies in
this rank's slice, perhaps empty. So every rank's optimizer has the same list of parameters, in the same groups. No
torch here: the simulator counts with the same function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Partition:
    """How parameters of these sizes lie in ``ranks`` slices.

    sizes: elements of each parameter; ranks: how many slices.
    """

    sizes: tuple[int, ...]
    ranks: int

    @property
    def length(self) -> int:
        """Elements of a slice: ⌈all / ranks⌉."""
        return -(-sum(self.sizes) // self.ranks)

    @property
    def padded(self) -> int:
        """Elements of all slices; the last ``padded − sum(sizes)`` are nobody's, fewer than there are ranks."""
        return self.length * self.ranks

    def pieces(self, rank: int) -> list[tuple[int, int]]:
        """Start and stop of each parameter's piece, counted in the rank's slice; equal where it has none of it."""
        first, found, start = rank * self.length, [], 0
        for size in self.sizes:
            low, high = (min(max(edge - first, 0), self.length) for edge in (start, start + size))
            found.append((low, high))
            start += size
        return found

    def within(self, rank: int) -> list[tuple[int, int]]:
        """The same pieces, counted in the elements of each parameter."""
        starts = [sum(self.sizes[:i]) for i in range(len(self.sizes))]
        shift = rank * self.length
        return [
            (low + shift - s, high + shift - s) if high > low else (0, 0)
            for (low, high), s in zip(self.pieces(rank), starts, strict=True)
        ]


def padding(sizes: Sequence[Sequence[int]], ranks: int) -> int:
    """Elements of padding in all: fewer than ``ranks`` for each list of parameters that is cut together."""
    return sum(Partition(tuple(each), ranks).padded - sum(each) for each in sizes)
