"""A step of training on a pipeline, clipped by the norm of the whole gradient: wait for the norm, or step first.

    sync            every rank waits until the last one has ended: a bubble, whatever the schedule

        rank 0      … W5 ├─ wait for the norm ─┤ step
        rank 1      … I5 W3 W4 W5 ├─── wait ───┤ step

    postvalidate    step as if the norm were small enough, and look when it is known. Nobody waits

        rank 0      … W5 step │ F0 F1 … W5 │ was the norm of the step before small enough?
        rank 1      … I5 W3 W4 W5 step │ … │ yes: go on. No: everything as it was before that step, bit by bit;
                                             step again, clipped; run this batch again

What postvalidate costs: a copy of parameters, gradients and optimizer state, and a batch that is run twice whenever the
step before it is clipped; on all ranks alike, as all see the same norm. Both give the same parameters, bit by bit.

Qi et al., Zero Bubble Pipeline Parallelism, arXiv:2401.10241, section 4, where a step is undone by arithmetic.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor, nn

from ..clip import Norm, check_max_norm, clip_grad_norm_
from ..zero import Zero
from .engine import Pipeline

CLIPS = ("sync", "postvalidate")


class Stepper:
    """Runs batches through a pipeline and updates its parameters.

    Args:
        pipeline: on a ``Mesh`` (or of one rank): the norm is over all of it.
        optimizer: of ``pipeline.parameters()``, or the ``Zero`` that the pipeline was given (with ``clip="sync"``).
        max_norm: the 2-norm that is allowed; ``inf`` clips nothing.
        clip: ``"sync"`` or ``"postvalidate"``.

    Attributes:
        norm: of the last step whose norm is known, before clipping; undone: steps that were taken back.

    Raises:
        ValueError: another ``clip``, a max_norm below 0, a pipeline without a mesh, or ``postvalidate`` with ``Zero``.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        optimizer: torch.optim.Optimizer | Zero,
        max_norm: float = math.inf,
        clip: str = "sync",
    ) -> None:
        check_max_norm(max_norm)
        if clip not in CLIPS:
            raise ValueError(f"clip={clip!r}: give one of {', '.join(CLIPS)}")
        if pipeline.mesh is None and pipeline.size > 1:
            raise ValueError("pipeline was given a group: give it a Mesh, along which the norm is added up")
        if clip == "postvalidate" and isinstance(optimizer, Zero):
            raise ValueError(
                'clip="postvalidate": a step of Zero sends parameters to other ranks, so it cannot be taken back here '
                'alone; use clip="sync", or an optimizer of the whole parameters'
            )
        self._pipeline, self._optimizer, self._max_norm, self._clip = pipeline, optimizer, max_norm, clip
        self._taken: _Taken | None = None
        self.norm: Tensor | None = None
        self.undone = 0

    def step(self, inputs: Any, targets: Any = None) -> Tensor | None:
        """A batch, and an update: see ``Pipeline.step``, whose loss it returns.

        Raises:
            FloatingPointError: a gradient is not finite: of this step (sync) or of the one before (postvalidate), which
                is taken back. On all ranks.
        """
        before = _Surroundings(self._pipeline.module) if self._taken is not None else None
        loss = self._run(inputs, targets)
        if before is not None and not self._stands():
            before.restore()
            loss = self._run(inputs, targets)
        self._update()
        return loss

    def finish(self) -> None:
        """Judge the last step, if that is still to be done: before parameters are read, evaluated or saved."""
        self._stands()

    def _run(self, inputs: Any, targets: Any) -> Tensor | None:
        self._optimizer.zero_grad()
        return self._pipeline.step(inputs, targets)

    def _update(self) -> None:
        if self._clip == "postvalidate":
            norm = Norm(self._pipeline.module, self._pipeline.mesh, later=True)
            assert isinstance(self._optimizer, torch.optim.Optimizer)
            self._taken = _Taken(norm, self._optimizer)
        else:
            module = self._optimizer if isinstance(self._optimizer, Zero) else self._pipeline.module
            self.norm = self._timed("sync", clip_grad_norm_, module, self._max_norm, self._pipeline.mesh)
        self._timed("optimizer", self._optimizer.step)

    def _stands(self) -> bool:
        """Whether the step before was right; if not, it is now."""
        taken, self._taken = self._taken, None
        if taken is None:
            return True
        self.norm = taken.norm.value
        if self.norm.isfinite() and not taken.norm.exceeds(self._max_norm):
            return True
        taken.undo()
        if not self.norm.isfinite():
            raise FloatingPointError(taken.norm.not_finite())
        taken.redo(self._max_norm)
        self.undone += 1
        return False

    def _timed(self, name: str, act: Any, *args: Any) -> Any:
        tape = self._pipeline.tape
        return act(*args) if tape is None else tape.timed(name, act, *args)


class _Taken:
    """A step that is about to be taken, and all that it will change."""

    def __init__(self, norm: Norm, optimizer: torch.optim.Optimizer) -> None:
        self.norm, self._optimizer = norm, optimizer
        # buckets are filled again by the next batch
        norm.pieces = [(parameter, gradient.clone()) for parameter, gradient in norm.pieces]
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self._values = [(p, p.detach().clone()) for p in parameters]
        self._state = {p: copy.deepcopy(optimizer.state[p]) for p in parameters if p in optimizer.state}
        self._settings = _settings(optimizer)

    @torch.no_grad()
    def undo(self) -> None:
        """Parameters and optimizer state as they were."""
        for parameter, value in self._values:
            parameter.copy_(value)
        self._optimizer.state.clear()
        self._optimizer.state.update(self._state)

    def redo(self, max_norm: float) -> None:
        """The step with the clipped gradient, with the learning rate that it had."""
        self.norm.scale(max_norm)
        for parameter, _ in self._values:
            parameter.grad = None
        for parameter, gradient in self.norm.pieces:
            parameter.grad = gradient
        now = _settings(self._optimizer)
        _set(self._optimizer, self._settings)
        self._optimizer.step()
        _set(self._optimizer, now)


def _settings(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    return [{name: value for name, value in group.items() if name != "params"} for group in optimizer.param_groups]


def _set(optimizer: torch.optim.Optimizer, settings: list[dict[str, Any]]) -> None:
    for group, values in zip(optimizer.param_groups, settings, strict=True):
        group.update(values)


class _Surroundings:
    """What else a batch depends on and changes: buffers and random generators."""

    def __init__(self, module: nn.Module) -> None:
        self._buffers = [(buffer, buffer.clone()) for buffer in module.buffers()]
        self._generator = torch.get_rng_state()
        self._devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []

    @torch.no_grad()
    def restore(self) -> None:
        for buffer, value in self._buffers:
            buffer.copy_(value)
        torch.set_rng_state(self._generator)
        if self._devices:
            torch.cuda.set_rng_state_all(self._devices)
