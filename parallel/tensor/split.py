"""Which slice of a parameter a rank holds: a rule that is data, so that any mesh can read what another has written.

    Split(dim=0, parts=(4, 2, 2)) on 2 ranks      whole    q0 q1 q2 q3 │ k0 k1 │ v0 v1
                                                  rank 0   q0 q1       │ k0    │ v0
                                                  rank 1         q2 q3 │    k1 │    v1

A fused matrix is cut part by part: contiguous rows would give rank 0 all queries. The rule stands on the parameter, as
``parameter.split_rule``; one without it is the same on all ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..clip import OWN


@dataclass(frozen=True, slots=True)
class Split:
    """How the ranks along an axis of the mesh share a parameter.

    dim: which dimension is cut. parts: lengths along it, each cut by itself; they add up to the whole. padded: a part
    that the ranks do not divide is continued with zeros, which belong to nobody's whole tensor. axis: of the mesh.
    """

    dim: int
    parts: tuple[int, ...]
    padded: bool = False
    axis: str = "tp"

    def check(self, name: str, size: int) -> None:
        """Raises:
        ValueError: ``size`` ranks do not divide a part, and it is not padded.
        """
        for part in self.parts:
            if part % size and not self.padded:
                raise ValueError(
                    f"{name} has {part} rows or columns to share, which {size} ranks do not divide: "
                    f"take {part // size * size or size} or {(part // size + 1) * size}, or fewer ranks"
                )

    def ranges(self, rank: int, size: int) -> list[tuple[int, int]]:
        """(offset, length) along ``dim`` of the whole tensor, one a part: what rank ``rank`` of ``size`` holds, in this
        order. Padding is not among them; it comes after what a rank holds of a part."""
        found, first = [], 0
        for part in self.parts:
            each = -(-part // size)
            start = min(rank * each, part)
            found.append((first + start, min(each, part - start)))
            first += part
        return found

    def share(self, whole: Tensor, rank: int, size: int) -> Tensor:
        """A rank's own copy of its slice, padding included."""
        pieces = []
        for part, (offset, length) in zip(self.parts, self.ranges(rank, size), strict=True):
            pieces.append(whole.narrow(self.dim, offset, length))
            if missing := -(-part // size) - length:
                shape = [*whole.shape]
                shape[self.dim] = missing
                pieces.append(whole.new_zeros(shape))
        return torch.cat(pieces, self.dim)

    def join(self, shares: Sequence[Tensor]) -> Tensor:
        """The whole tensor, from all ranks' slices in order."""
        size, pieces, first = len(shares), [], 0
        for number, part in enumerate(self.parts):
            for rank, share in enumerate(shares):
                pieces.append(share.narrow(self.dim, first, self.ranges(rank, size)[number][1]))
            first += -(-part // size)
        return torch.cat(pieces, self.dim)


def split_of(parameter: Tensor) -> Split | None:
    """The rule on a parameter; None: all ranks have the whole."""
    return getattr(parameter, "split_rule", None)


def shared(whole: Tensor, split: Split, rank: int, size: int, name: str) -> nn.Parameter:
    """A parameter that holds this rank's slice, with its rule on it, also in the words of ``clip_grad_norm_``.

    Raises:
        ValueError: the ranks do not divide it; ``name`` says what it is.
    """
    split.check(name, size)
    own = nn.Parameter(split.share(whole.detach(), rank, size), whole.requires_grad)
    own.split_rule, own.split_over = split, (*OWN, split.axis)  # type: ignore[attr-defined]
    return own
