"""What a bare function is given on each rank, and what must come of it, as one process computes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from .marks import mark

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Variant:
    """One call: the shape of a rank's data (its last number is that of a chunk where there are chunks), and the
    operation.
    """

    shape: tuple[int, ...]
    op: str = ""

    @property
    def numel(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True)
class Case:
    """A bare collective.

    variants: calls for n ranks, the first of which is also priced (60 elements, which 1 to 6 ranks divide). chunks: the
    argument is a list with one chunk a rank. in_place: the result is in the argument, nothing is returned. keeps: the
    argument must not change. expected: (data of all ranks, variant, rank) → the result of ``rank``.
    """

    name: str
    variants: Callable[[int], list[Variant]]
    expected: Callable[[Sequence[Tensor], Variant, int], Tensor]
    chunks: bool = False
    in_place: bool = False
    keeps: bool = False
    mean: bool = False
    ops: bool = False

    def data(self, variant: Variant, rank: int) -> Tensor:
        """The marked data of ``rank``, float64."""
        import torch

        values = [mark(rank, position) for position in range(variant.numel)]
        return torch.tensor(values, dtype=torch.float64).reshape(variant.shape)

    def arguments(self, variant: Variant, rank: int) -> list[Any]:
        data = self.data(variant, rank)
        first: Any = [row.clone() for row in data] if self.chunks else data
        return [first, variant.op] if self.ops else [first]


def _plain(size: int) -> list[Variant]:
    return [Variant((60,)), Variant((7,)), Variant((2, 3)), Variant((1,))]


def _uneven(size: int) -> list[Variant]:
    lengths = sorted({7, size - 1, size, size + 1, 2 * size - 1, 1, 0})
    sums = [Variant((60,), "sum"), Variant((60,), "max"), Variant((3, 5), "sum")]
    return sums + [Variant((length,), op) for length in lengths for op in ("sum", "max")]


def _combined(data: Sequence[Tensor], variant: Variant, rank: int) -> Tensor:
    import torch

    stacked = torch.stack(list(data))
    return stacked.amax(0) if variant.op == "max" else stacked.sum(0)


CASES = {
    case.name: case
    for case in (
        Case("rotate", _plain, lambda data, variant, rank: data[rank - 1], keeps=True),
        Case("broadcast", _plain, lambda data, variant, rank: data[0], in_place=True),
        Case("all_reduce", _plain, _combined, in_place=True),
        Case(
            "average", _plain, lambda data, variant, rank: sum(data[1:], data[0]) / len(data), in_place=True, mean=True
        ),
        Case(
            "reduce_scatter",
            lambda size: [Variant((size, 60 // size)), Variant((size, 1)), Variant((size, 7))],
            lambda data, variant, rank: sum((one[rank] for one in data[1:]), data[0][rank]),
            chunks=True,
        ),
        Case("all_reduce_op", _uneven, _combined, in_place=True, ops=True),
    )
}
