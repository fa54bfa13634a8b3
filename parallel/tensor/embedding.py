"""The table of tokens, shared by its rows: a rank looks up the tokens that are its own, and the sum puts them together.

vocabulary 11 on 2 ranks: 6 rows each      token           10  3  7
rank 0: 0 1 2 3 4 5                         rank 0 gives    0  row 3  0
rank 1: 6 7 8 9 10 (a row of zeros)         rank 1 gives    row 10  0  row 7
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..deferred import Owed, add_gradient, lookup
from . import functional
from .ranks import TensorParallel
from .sequence import padded
from .split import Split, shared


class VocabParallelEmbedding(nn.Module):
    """A table of which each rank has a run of rows; the last ones may be padding.

    Args:
        embedding: the whole table, the same on all ranks; its slice is copied.
        tp: who shares it.

    Raises:
        ValueError: a table that rescales or scales gradients (max_norm, scale_grad_by_freq, sparse).
    """

    owed: Owed | None = None

    def __init__(self, embedding: nn.Embedding, tp: TensorParallel) -> None:
        super().__init__()
        if embedding.max_norm is not None or embedding.scale_grad_by_freq or embedding.sparse:
            raise ValueError("embedding: max_norm, scale_grad_by_freq and sparse are not shared; leave them out")
        self.tp, self.vocabulary = tp, embedding.num_embeddings
        split = Split(0, (self.vocabulary,), padded=True)
        self.weight = shared(embedding.weight, split, tp.rank, tp.size, "embedding.weight")
        (self.first, self.rows), *_ = split.ranges(tp.rank, tp.size)
        still = embedding.padding_idx
        self.padding_idx = None if still is None or not 0 <= still - self.first < self.rows else still - self.first

    def forward(self, tokens: Tensor) -> Tensor:
        """Token numbers (…, s), the same on all ranks → (…, s, h), with sequence parallelism this rank's share of the
        places, padded to a multiple of the ranks.

        Raises:
            ValueError: a token outside the vocabulary (on a CPU; a GPU would have to wait for it).
        """
        if not tokens.is_cuda and tokens.numel() and not 0 <= tokens.min() <= tokens.max() < self.vocabulary:
            raise ValueError(
                f"tokens has {tokens.min()} to {tokens.max()}, but the vocabulary is 0 to {self.vocabulary - 1}"
            )
        local = tokens - self.first
        foreign = (local < 0) | (local >= self.rows)
        rows = lookup(local.masked_fill(foreign, 0), self.weight, self.padding_idx, self)
        part = rows.masked_fill(foreign.unsqueeze(-1), 0)
        if not self.tp.sequence:
            return functional.reduce(part, self.tp.group)
        return functional.reduce_scatter(padded(part, self.tp.size), -2, self.tp.group)

    def add_weight_gradients(self, x: Tensor, gradient: Tensor) -> None:
        """See ``deferred``; ``x`` are numbers of rows here, with a gradient of zeros where they are others'."""
        if self.weight.requires_grad:
            padding = -1 if self.padding_idx is None else self.padding_idx
            dense = torch.ops.aten.embedding_dense_backward
            add_gradient(self.weight, dense(gradient, x, self.weight.shape[0], padding, False))
