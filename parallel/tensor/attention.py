"""Attention, shared by heads: a rank has some of the query heads with the key and value heads that they read.

    x ─▶ copy ─▶ q │ k │ v of a/t heads ─▶ attention ─▶ projection, by its inputs ─▶ sum ─▶ + bias

Heads do not know of each other, so nothing is exchanged between the two. The attention itself is the plain one, with
fewer heads.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..attention import Attention
from .dropout import forked_dropout
from .linear import ColumnParallelLinear, RowParallelLinear
from .ranks import TensorParallel


class ParallelAttention(Attention):
    """This rank's heads.

    Args:
        attention: the whole block, the same on all ranks; slices are copied.
        tp: who shares it.

    Raises:
        ValueError: heads, or key and value heads, that the ranks do not divide.
    """

    def __init__(self, attention: Attention, tp: TensorParallel) -> None:
        nn.Module.__init__(self)
        heads, kv_heads, self.size = attention.heads, attention.kv_heads, attention.size
        for name, count in (("heads", heads), ("kv_heads", kv_heads)):
            if count % tp.size:
                raise ValueError(
                    f"{name}={count}: {tp.size} ranks do not divide them, and a head is not cut; "
                    f"take a multiple of {tp.size} heads, or as many ranks as divide {count}"
                )
        self.heads, self.kv_heads, self.tp = heads // tp.size, kv_heads // tp.size, tp
        self.dropout, self.theta = attention.dropout, attention.theta
        parts = [count * self.size for count in (heads, kv_heads, kv_heads)]
        self.qkv = ColumnParallelLinear(attention.qkv, tp, parts)  # type: ignore[assignment]
        self.projection = RowParallelLinear(attention.projection, tp)  # type: ignore[assignment]

    def mix(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """As the plain one; with dropout, weights are made one by one, to be dropped by this rank's own mask."""
        if not (self.training and self.dropout):
            return super().mix(query, key, value)
        scores = query @ key.mT / self.size**0.5
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        weights = scores.masked_fill(later, float("-inf")).softmax(-1)
        return forked_dropout(weights, self.dropout, self.tp) @ value
