"""Test data that differ by rank and position, and what every reduction of them is, exactly, in every dtype.

Values repeat with a prime period, so data that end up in a wrong place show, unless they are a multiple of the period
away. They are small, so that every order of combining gives the same: sums stay below 127 (exact even in bfloat16 and
int8), products are of 1s and at most six 2s. Where more ranks would leave that range, only some of them contribute at
a position, in turn, and the others hold the neutral element there.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

PERIOD = 8191
BLOCK = 1 << 16  # elements filled or compared at a time
LIMIT = 126

_COMBINE: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "sum": torch.add,
    "avg": torch.add,
    "prod": torch.mul,
    "min": torch.minimum,
    "max": torch.maximum,
    "band": torch.bitwise_and,
    "bor": torch.bitwise_or,
    "bxor": torch.bitwise_xor,
}
_NEUTRAL = {"sum": 0, "avg": 0, "prod": 1, "min": 127, "max": 0, "band": 127, "bor": 0, "bxor": 0}
_ACTIVE = {"sum": LIMIT, "avg": LIMIT, "prod": 6, "band": 6, "bor": 6}  # ranks that contribute at a position


class Pattern:
    """The data of one group and reduction.

    Args:
        redop: ``none`` for collectives that only move.

    Memory beside the tensors that are filled and compared: at most ``5 * BLOCK * itemsize + 128 * PERIOD`` bytes,
    whatever their size.
    """

    def __init__(self, redop: str, ranks: int, dtype: torch.dtype, device: torch.device) -> None:
        self.redop, self.ranks, self.dtype, self.device = redop, ranks, dtype, device

    def contribution(self, rank: int) -> torch.Tensor:
        """What ``rank`` holds: one period."""
        return self._values(rank).to(self.dtype)

    def combined(self) -> torch.Tensor:
        """What all ranks' contributions make together: one period."""
        combine = _COMBINE[self.redop]
        total = self._values(0)
        for rank in range(1, self.ranks):
            total = combine(total, self._values(rank))
        result = total.to(self.dtype)
        return result.div_(self.ranks) if self.redop == "avg" else result

    def _values(self, rank: int) -> torch.Tensor:
        key = torch.arange(PERIOD, dtype=torch.int64, device=self.device)
        noise = (key * 0x9E3779B1 + rank * 0x85EBCA77) & 0xFFFFFFFF
        for shift, factor in ((15, 0x2C1B3C6D), (12, 0x297A2D39), (15, 1)):
            noise = ((noise ^ (noise >> shift)) * factor) & 0xFFFFFFFF
        active = min(self.ranks, _ACTIVE.get(self.redop, self.ranks))
        if self.redop in ("sum", "avg"):
            values = noise % (LIMIT // active + 1)
        elif self.redop == "prod":
            values = 1 + noise % 2
        elif self.redop in ("band", "bor"):
            bit = torch.ones_like(key) << noise % 7
            values = 127 - bit if self.redop == "band" else bit
        else:
            values = noise % (LIMIT + 1)
        turns = -(-self.ranks // active)
        if turns > 1:
            values = torch.where((key + rank) % turns == 0, values, _NEUTRAL[self.redop])
        return values


def fill(tensor: torch.Tensor, period: torch.Tensor, offset: int = 0) -> None:
    """Write a flat tensor block by block; it begins at position ``offset`` of the data that repeat ``period``."""
    tile = _tile(period, tensor.numel())
    for start in range(0, tensor.numel(), BLOCK):
        block = tensor[start : start + BLOCK]
        block.copy_(tile.narrow(0, (offset + start) % PERIOD, block.numel()))


def count_wrong(tensor: torch.Tensor, period: torch.Tensor, offset: int = 0, ulps: int = 0) -> int:
    """Elements of a flat tensor that are not what they should be, by comparing every one.

    Args:
        ulps: units in the last place that an element may be off.
    """
    tile = _tile(period, tensor.numel())
    wrong = torch.zeros((), dtype=torch.int64, device=tensor.device)
    for start in range(0, tensor.numel(), BLOCK):
        block = tensor[start : start + BLOCK]
        expected = tile.narrow(0, (offset + start) % PERIOD, block.numel())
        if ulps:
            near = (block - expected).abs() <= expected.abs() * (ulps * torch.finfo(tensor.dtype).eps)
            wrong += near.logical_not().sum()
        else:
            wrong += block.ne(expected).sum()
    return int(wrong.item())


def _tile(period: torch.Tensor, numel: int) -> torch.Tensor:
    """Enough of the repeating data that a block may begin anywhere in the first period."""
    length = PERIOD + min(BLOCK, numel)
    return period.repeat(-(-length // PERIOD))[:length]
