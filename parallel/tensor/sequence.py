"""Sequence parallelism: between the blocks every rank has its share of the places, and nothing is there twice.

    x (s/t) ─▶ norm ─▶ all-gather ─▶ all places, some of the heads ─▶ reduce-scatter ─▶ dropout ─▶ + ─▶ x (s/t)

Norms and biases there are the same on all ranks but see only a share of the places: their gradients are parts, and must
be added up, or the copies drift apart. ``functional.copy`` of the parameter does it where the gradient is made, so that
no step can be forgotten. A sequence that the ranks do not divide is continued with places that no place looks back to.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from ..deferred import Embedding
from . import functional
from .ranks import TensorParallel


def padded(x: Tensor, size: int) -> Tensor:
    """x (…, s, h) with zeros behind it, to the next multiple of ``size`` places."""
    return F.pad(x, (0, 0, 0, -x.shape[-2] % size))


class SequenceEmbedding(Embedding):
    """A table that every rank has whole, of which it returns its share of the places; for learned positions.

    Args:
        embedding: the table; its parameter is taken as it is.
    """

    def __init__(self, embedding: nn.Embedding, tp: TensorParallel) -> None:
        super().__init__(1, 1)
        self.num_embeddings, self.embedding_dim = embedding.num_embeddings, embedding.embedding_dim
        self.weight, self.tp = embedding.weight, tp

    def forward(self, places: Tensor) -> Tensor:
        """Place numbers (…, s) → (…, s/t, h)."""
        return functional.scatter(padded(super().forward(places), self.tp.size), -2, self.tp.group)


class SequenceLayerNorm(nn.LayerNorm):
    """A norm of this rank's places, whose gradients are added up over the ranks.

    Args:
        norm: its parameters are taken as they are.
    """

    def __init__(self, norm: nn.LayerNorm, tp: TensorParallel) -> None:
        super().__init__(norm.normalized_shape, norm.eps, elementwise_affine=False)
        self.weight, self.bias, self.tp = norm.weight, norm.bias, tp

    def forward(self, input: Tensor) -> Tensor:
        """(…, s/t, h) → the same shape."""
        weight, bias = (None if p is None else functional.copy(p, self.tp.group) for p in (self.weight, self.bias))
        return F.layer_norm(input, self.normalized_shape, weight, bias, self.eps)


class SequenceRMSNorm(nn.RMSNorm):
    """The same of a norm without mean and bias."""

    def __init__(self, norm: nn.RMSNorm, tp: TensorParallel) -> None:
        super().__init__(norm.normalized_shape, norm.eps, elementwise_affine=False)
        self.weight, self.tp = norm.weight, tp

    def forward(self, x: Tensor) -> Tensor:
        """(…, s/t, h) → the same shape."""
        weight = None if self.weight is None else functional.copy(self.weight, self.tp.group)
        return F.rms_norm(x, self.normalized_shape, weight, self.eps)
