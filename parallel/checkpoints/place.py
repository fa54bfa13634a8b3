"""Where a rank's elements lie in the whole tensor: its slice along one dimension, then a run of what that leaves.

whole (6, 4)            tensor parallel: rows 1, 2 and 4, 5      ZeRO: elements 4 to 10 of that, flat
┌───────────┐           ┌───────────┐
│ 0         │           │ 1         │                            · · · ·
│ 1 ■■■■■■■ │   cut     │ 2         │   run                      ■ ■ ■ ■
│ 2 ■■■■■■■ │ ────────▶ │ 4         │ ────────▶                  ■ ■ · ·
│ 3         │           │ 5         │                            · · · ·
│ 4 ■■■■■■■ │           └───────────┘
│ 5 ■■■■■■■ │
└───────────┘
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from ..tensor import Split


@dataclass(frozen=True, slots=True)
class Place:
    """One rank's part of a tensor.

    shape: of the whole. run: from–to in what is cut, flat. split: how ``ranks`` ranks share it, of which this is
    ``rank``; None: all of it is there.
    """

    shape: tuple[int, ...]
    run: tuple[int, int]
    split: Split | None = None
    rank: int = 0
    ranks: int = 1

    @classmethod
    def of(
        cls,
        shape: Sequence[int],
        run: tuple[int, int] | None = None,
        split: Split | None = None,
        rank: int = 0,
        ranks: int = 1,
    ) -> Place:
        """A place; without a run, all that is cut."""
        whole = tuple(int(size) for size in shape)
        return cls(whole, run or (0, _cut_elements(whole, split, ranks)), split, rank, ranks)

    @property
    def length(self) -> int:
        """Elements that the rank has, padding among them."""
        return self.run[1] - self.run[0]

    def cut(self, whole: Tensor) -> Tensor:
        """The rank's elements of a whole tensor, flat; 0 where it has more than the whole."""
        share = whole if self.split is None else self.split.share(whole, self.rank, self.ranks)
        return share.flatten()[slice(*self.run)]

    def fill(self, whole: Tensor, values: Tensor) -> None:
        """Write the rank's elements, flat, to where they belong in a whole tensor."""
        if self.split is None:
            whole.view(-1)[slice(*self.run)] = values
        else:
            numbers = self._numbers()
            there = numbers >= 0
            whole.view(-1)[numbers[there]] = values[there]

    def count(self, seen: Tensor) -> None:
        """Add 1 to every element of a whole tensor of counts that the rank has."""
        if self.split is None:
            seen.view(-1)[slice(*self.run)] += 1
        else:
            numbers = self._numbers()
            seen.view(-1)[numbers[numbers >= 0]] += 1

    def elements(self) -> int:
        """Elements of the whole tensor that the rank has."""
        return self.length if self.split is None else int((self._numbers() >= 0).sum())

    def _numbers(self) -> Tensor:
        """Which elements of the whole, flat, these are; −1 of padding."""
        return self.cut(torch.arange(1, math.prod(self.shape) + 1).view(self.shape)) - 1

    def to_json(self) -> dict[str, Any]:
        content: dict[str, Any] = {"run": list(self.run)}
        if self.split is not None:
            content |= {"split": asdict(self.split), "rank": self.rank, "ranks": self.ranks}
        return content

    @classmethod
    def from_json(cls, shape: Sequence[int], content: Any) -> Place:
        """The reverse.

        Raises:
            ValueError, KeyError, TypeError: what is none, or lies outside of the whole.
        """
        run, rule = content["run"], content.get("split")
        split = (
            None
            if rule is None
            else Split(int(rule["dim"]), tuple(int(p) for p in rule["parts"]), bool(rule["padded"]))
        )
        place = cls.of(
            shape, (int(run[0]), int(run[1])), split, int(content.get("rank", 0)), int(content.get("ranks", 1))
        )
        fits = split is None or (0 <= split.dim < len(shape) and sum(split.parts) == shape[split.dim])
        if not fits or not 0 <= place.rank < place.ranks:
            raise ValueError(f"a part at {content} of a tensor of shape {list(shape)}")
        if not 0 <= place.run[0] <= place.run[1] <= _cut_elements(place.shape, split, place.ranks):
            raise ValueError(f"a part at {content} of a tensor of shape {list(shape)}")
        return place


def _cut_elements(shape: tuple[int, ...], split: Split | None, ranks: int) -> int:
    """Elements of one rank's share."""
    if split is None:
        return math.prod(shape)
    along = sum(-(-part // ranks) for part in split.parts)
    return math.prod(shape) // max(1, shape[split.dim]) * along
