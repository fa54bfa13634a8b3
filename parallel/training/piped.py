"""Forward and backward through a pipeline, as its schedule says."""

from __future__ import annotations

import contextlib

import torch
from torch import Tensor

from ..offload import Activations
from ..pipeline.engine import Pipeline


class Piped:
    """Runs a pipeline over this replica's rows. away: where activations go."""

    def __init__(self, pipeline: Pipeline, away: Activations | None) -> None:
        self.pipeline, self._away = pipeline, away

    def step(self, rows: Tensor, microbatches: int) -> Tensor:
        """As ``Straight.step``; the pipeline knows its microbatches."""
        assert microbatches == self.pipeline.microbatches
        with self._away or contextlib.nullcontext():
            loss = self.pipeline.step(rows[:, :-1].contiguous(), rows[:, 1:].contiguous())
        mean: Tensor = self.pipeline.mean_loss(loss)
        return mean.to(torch.float64)
