"""Forward and backward through a pipeline, as its schedule says."""

from __future__ import annotations

import contextlib

import torch
from torch import Tensor

from ..offload import Activations
from ..pipeline.engine import Pipeline
from ..pipeline.stepper import Stepper


class Piped:
    """Runs a pipeline over this replica's rows.

    Args:
        away: where activations go. stepper: if it is given, a step updates parameters, too.
    """

    def __init__(self, pipeline: Pipeline, away: Activations | None, stepper: Stepper | None = None) -> None:
        self.pipeline, self._away, self.stepper = pipeline, away, stepper

    def step(self, rows: Tensor, microbatches: int) -> Tensor:
        """As ``Straight.step``; the pipeline knows its microbatches."""
        assert microbatches == self.pipeline.microbatches
        with self._away or contextlib.nullcontext():
            loss = (self.stepper or self.pipeline).step(rows[:, :-1].contiguous(), rows[:, 1:].contiguous())
        mean: Tensor = self.pipeline.mean_loss(loss)
        return mean.to(torch.float64)
