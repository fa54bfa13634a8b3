"""A model in training as a recipe says, on this rank: stepped, looked at, saved and restored.

rows of the global batch ─▶ this rank's share ─▶ microbatches: forward, backward (sums) ─▶ clip ─▶ update
                            the mean is per valid token of all ranks, so every mesh computes the same step
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from collectives.communicator import communicator
from collectives.span import Span
from collectives.trace import OperationTracer, Tape, clock_offsets

from .. import checkpoints
from ..clip import clip_grad_norm_
from ..memory import Bytes, Ledger
from ..mesh import Mesh
from ..pipeline.stepper import Stepper
from ..precision import MixedPrecision
from ..traffic import counted
from ..zero import Zero
from .build import assemble
from .piped import Piped
from .recipe import Recipe

_SHIFT = 2_654_435_761  # spreads the numbers of steps over seeds


@dataclass(frozen=True, slots=True)
class Step:
    """What a step has come to, the same on all ranks. taken: False after an overflow."""

    loss: float
    taken: bool


class Training:
    """One rank of a run.

    Args:
        recipe: what to do; its ``ranks`` are those of the default group.

    Attributes:
        mesh; module: this rank's part of the model; optimizer; steps: how many have been done; norms: of the whole
            gradient before clipping, by the number of the step, as far as they are known (see ``settle``).
    """

    def __init__(self, recipe: Recipe) -> None:
        self.recipe, self.steps = recipe, 0
        self.norms: dict[int, float] = {}
        self.mesh = Mesh(dp=recipe.dp, pp=recipe.pp, tp=recipe.tp)
        self._built = assemble(recipe, self.mesh)
        self.module, self.optimizer = self._built.module, self._built.optimizer

    def step(self, rows: Tensor) -> Step:
        """One step on the global batch, (rows, sequence + 1) int64.

        Raises:
            FloatingPointError: the loss or a gradient is not finite, on all ranks; nothing was updated.
        """
        here = self.mesh.coordinates()
        self._set_rate()
        self._set_streams(here)
        self.optimizer.zero_grad()
        share = rows.tensor_split(self.recipe.dp)[here["dp"]]  # shares may differ by a row
        loss = float(self._built.engine.step(share, self.recipe.microbatches))
        if not torch.tensor(loss).isfinite():
            raise FloatingPointError(f"step {self.steps + 1}: the loss is {loss}; lower --lr, or find the first NaN")
        stepper, taken = self._stepper(), True
        if stepper is None:
            clipped: Any = self.optimizer if isinstance(self.optimizer, (MixedPrecision, Zero)) else self.module
            self.norms[self.steps + 1] = clip_grad_norm_(clipped, self.recipe.max_norm, self.mesh).item()
            taken = self.optimizer.step() is not False
        elif stepper.norm is not None:
            self.norms[self.steps] = stepper.norm.item()
        self.steps += 1
        return Step(loss, taken)

    def settle(self) -> None:
        """Where steps are judged afterwards, judge the last one: before parameters are read. All ranks call it."""
        stepper = self._stepper()
        if stepper is not None and self.steps:
            stepper.finish()
            if stepper.norm is not None:
                self.norms[self.steps] = stepper.norm.item()

    def _stepper(self) -> Stepper | None:
        engine = self._built.engine
        return engine.stepper if isinstance(engine, Piped) else None

    def _set_rate(self) -> None:
        inner = self.optimizer if isinstance(self.optimizer, torch.optim.Optimizer) else self.optimizer.optimizer
        for group in inner.param_groups:
            group["lr"] = self.recipe.rate(self.steps)

    def _set_streams(self, here: dict[str, int]) -> None:
        """Random numbers of a step: the same on the ranks of a tensor-parallel group, others everywhere else."""
        place = here["pp"] * self.recipe.dp + here["dp"]
        count = self.recipe.pp * self.recipe.dp
        torch.manual_seed((self.recipe.seed * _SHIFT + self.steps * count + place) % 2**63)

    # Looking at it.

    def parameters(self) -> int:
        """Of the whole model."""
        mine = sum(held.place.elements() for held in self.holdings() if held.first)
        everyone: list[Any] = [None] * self.mesh.size
        dist.all_gather_object(everyone, mine)
        return sum(everyone)

    def memory(self) -> Bytes:
        """Bytes of this rank at rest, by kind."""
        return Ledger(self.optimizer if isinstance(self.optimizer, Zero) else self.module, self.optimizer).now()

    @contextlib.contextmanager
    def counted(self) -> Iterator[dict[str, int]]:
        """Bytes that this rank sends meanwhile, by axis of the mesh; they are there at the end."""
        sent: dict[str, int] = {}
        before = self._piped()
        with contextlib.ExitStack() as stack:
            traffic = {axis: stack.enter_context(counted(self.mesh.group(axis))) for axis in self.mesh.axes}
            yield sent
        sent.update({axis: each.bytes for axis, each in traffic.items()})
        sent["pp"] += self._piped() - before

    def _piped(self) -> int:
        engine = self._built.engine
        return engine.pipeline.sent if isinstance(engine, Piped) else 0

    def traced(self, rows: Tensor) -> tuple[Step, list[Span]]:
        """One step, and what this rank did meanwhile, on the clock of rank 0. All ranks call it."""
        offset, tape = clock_offsets()[0][dist.get_rank()], Tape(dist.get_rank(), f"step {self.steps + 1}")
        ours = [communicator(self.mesh.group(axis)) for axis, size in self.mesh.axes.items() if size > 1]
        engine = self._built.engine
        before = [each.tracer for each in ours]
        for each in ours:
            each.tracer = OperationTracer(tape, None)
        if isinstance(engine, Piped):
            engine.pipeline.tape = tape
        try:
            step = self.step(rows)
        finally:
            for each, tracer in zip(ours, before, strict=True):
                each.tracer = tracer
            if isinstance(engine, Piped):
                engine.pipeline.tape = None
        return step, [span.moved(offset) for span in tape.spans]

    # Checkpoints.

    def save(self, folder: checkpoints.Folder) -> Path:
        """Write all of it; all ranks call it. Raises OSError as :func:`checkpoints.save`."""
        self.settle()
        scale = self.optimizer.scale if isinstance(self.optimizer, (MixedPrecision, Zero)) else None
        state = {"step": self.steps, "recipe": self.recipe.to_json(), "scale": scale and scale.state_dict()}
        return checkpoints.save(folder, self.steps, self.holdings(), state)

    def load(self, path: Path) -> dict[str, Any]:
        """Go on from a checkpoint; all ranks call it. Returns the recipe that wrote it.

        Raises:
            ValueError: damaged, or of another model; nothing was changed.
        """
        state = checkpoints.load(path, self.holdings())
        if isinstance(self.optimizer, (MixedPrecision, Zero)):
            self.optimizer.publish()
            if self.optimizer.scale is not None and state["scale"] is not None:
                self.optimizer.scale.load_state_dict(state["scale"])
        self.steps = int(state["step"])
        return dict(state["recipe"])

    def holdings(self) -> list[checkpoints.Holding]:
        """What this rank holds of the whole model."""
        held = self.optimizer if isinstance(self.optimizer, Zero) else self.module
        return checkpoints.holdings_of(held, self.optimizer, self.mesh, self._built.names)
