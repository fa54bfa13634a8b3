"""The loss of a model's outputs, whole or shared by tensor-parallel ranks."""

from __future__ import annotations

from torch import Tensor

from ..model import NO_TARGET, cross_entropy
from ..tensor import TensorParallel, vocab_parallel_cross_entropy


class Loss:
    """The sum of token losses. vocabulary: of the model; tp: who shares its columns, None: nobody."""

    def __init__(self, vocabulary: int, tp: TensorParallel | None) -> None:
        self._vocabulary, self._tp = vocabulary, tp

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        """logits (b, s, v), or this rank's columns of them; targets (b, s) int64 → a scalar."""
        if self._tp is None:
            return cross_entropy(logits, targets)[0]
        return vocab_parallel_cross_entropy(logits, targets, self._vocabulary, self._tp)[0]

    def count(self, targets: Tensor) -> Tensor:
        """How many tokens that is."""
        return (targets != NO_TARGET).sum()
