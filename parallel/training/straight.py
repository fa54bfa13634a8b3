"""Forward and backward without a pipeline: every rank has all layers, or its slice of each.

microbatch 0   forward, backward: gradients add up on this rank
microbatch 1   forward, backward: the same
last           forward, backward: the sum leaves for the data-parallel ranks, bucket by bucket
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import Tensor

import collectives

from ..loss import token_weight
from ..mesh import Mesh
from ..offload import Activations
from .losses import Loss


class Straight:
    """Runs a data-parallel wrapper, or ``Zero``, over the microbatches of a step.

    Args:
        model: what is called, and has ``no_sync``. loss: of its outputs. mesh: its axis dp shares the batch.
        alone: whether gradients stay here until the last microbatch: all but ZeRO from stage 2 on, where whole
            gradients would be in memory meanwhile. away: where activations go.
    """

    def __init__(self, model: Any, loss: Loss, mesh: Mesh, alone: bool, away: Activations | None) -> None:
        self._model, self._loss, self._mesh, self._alone, self._away = model, loss, mesh, alone, away

    def step(self, rows: Tensor, microbatches: int) -> Tensor:
        """The mean loss of the global batch, float64, the same on all ranks; gradients of this rank's rows are there.

        Args:
            rows: this rank's, (b, s + 1) int64.
        """
        group = self._mesh.group("dp")
        parts = rows.tensor_split(microbatches)
        weight = token_weight([self._loss.count(part[:, 1:]) for part in parts], group)
        losses = [self._pass(part, weight, last=part is parts[-1]) for part in parts]
        mean = torch.stack(losses).sum().double()
        collectives.all_reduce(mean, torch.distributed.ReduceOp.AVG, group)
        return mean

    def _pass(self, part: Tensor, weight: float, last: bool) -> Tensor:
        with contextlib.nullcontext() if last or not self._alone else self._model.no_sync():
            with self._away or contextlib.nullcontext():
                outputs = self._model(part[:, :-1].contiguous())
            loss = self._loss(outputs, part[:, 1:].contiguous()) * weight
            loss.backward()
        return loss.detach()
