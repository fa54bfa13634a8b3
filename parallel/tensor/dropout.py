"""Dropout where each rank has its own activations: one random stream for all ranks, from which each forks its own.

    torch's generator, alike on all ranks ──▶ mask of what all ranks have: the same everywhere (nn.Dropout as it is)
                                          └─▶ a seed for each rank, of which it takes its own ─▶ mask of its own

Both take the same from the common stream on all ranks, so it stays alike; and whatever saves and restores torch's
generator (a checkpoint, ``recompute``) restores the forks with it. Nothing is registered anywhere.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .ranks import TensorParallel

SEEDS = 1 << 32  # what torch's generator on a CPU takes of a seed


def forked_dropout(x: Tensor, p: float, tp: TensorParallel) -> Tensor:
    """Dropout with probability ``p`` by a mask of this rank's own; ``x`` varying.

    Every rank of the group calls it, with torch's generator in the same state.
    """
    seeds = torch.randint(SEEDS, (tp.size,), device="cpu")
    own = torch.Generator(x.device).manual_seed(int(seeds[tp.rank]))
    keep = torch.rand(x.shape, device=x.device, generator=own) >= p
    return x * keep / (1 - p)


class ForkedDropout(nn.Module):
    """``nn.Dropout`` of what is this rank's own."""

    def __init__(self, dropout: nn.Dropout, tp: TensorParallel) -> None:
        super().__init__()
        self.p, self.tp = dropout.p, tp

    def forward(self, x: Tensor) -> Tensor:
        """Any shape, unchanged in evaluation."""
        return forked_dropout(x, self.p, self.tp) if self.training and self.p else x
