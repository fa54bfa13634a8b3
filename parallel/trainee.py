"""A model in training by one strategy, on this rank: built, stepped, and watched during a step."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from collectives.communicator import communicator
from collectives.span import Span
from collectives.trace import OperationTracer, Tape

from .data import DataParallel, DistributedDataParallel
from .expectations import MEMORY, Job
from .memory import Ledger
from .mesh import Mesh
from .model import GPT, cross_entropy
from .offload import Activations, OffloadedStates, OnHost
from .precision import MixedPrecision
from .quantize import Adam8bit
from .recompute import checkpoint
from .strategies import Strategy
from .traffic import counted
from .zero import Zero

LR, EPS = 1e-3, 1e-4  # a key bias has a gradient of rounding noise, of which Adam makes full steps with a smaller eps


class Trainee:
    """One strategy's model and optimizer.

    Args:
        strategy: how; job: what. The model is the same on all ranks, and for all strategies.

    Attributes:
        groups: those on which this rank sends.
    """

    def __init__(self, strategy: Strategy, job: Job) -> None:
        torch.manual_seed(job.seed)
        model = GPT(job.config)
        if strategy.activations == "recomputed":
            for block in model.blocks:
                block.forward = partial(checkpoint, block.forward)
        self.groups: list[dist.ProcessGroup | None] = [] if strategy.alone else [None]
        self._threads: DataParallel | None = None
        self._trained = list(model.parameters())
        make = _optimizer(strategy)
        self.model: Any
        self.optimizer: Any
        if strategy.wrapper == "zero":
            mesh = None
            if strategy.copies > 1:
                mesh = Mesh(dp_replicate=strategy.copies, dp_shard=job.ranks // strategy.copies)
                self.groups = [mesh.group(axis) for axis in ("dp_replicate", "dp_shard")]
            precision = None if strategy.computes == "fp32" else strategy.computes
            kept = strategy.kept
            self.model = Zero(model, make, strategy.stage, mesh, precision=precision, reshard_after_forward=not kept)
            self.optimizer, self._ledger = self.model, Ledger(self.model)
        else:
            mixed = strategy.computes != "fp32"
            self.optimizer = MixedPrecision(model, make, strategy.computes) if mixed else make(model.parameters())
            self.model = model
            if strategy.wrapper == "threads":
                self.model = self._threads = DataParallel(model, ["cpu"] * job.ranks)
            elif strategy.wrapper == "ddp":
                self.model = DistributedDataParallel(model, bucket_mb=job.bucket_mb, wire=strategy.wire)
            self._ledger = Ledger(self.model, self.optimizer)
        self._away = Activations(keep=model.parameters()) if strategy.activations == "away" else None

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """The mean loss a token of this rank's rows: as all ranks have as many, its mean over ranks is the batch's."""
        with self._away or contextlib.nullcontext():
            logits = self.model(tokens)
        total, count = cross_entropy(logits, targets)
        return total / count

    def step(self, tokens: Tensor, targets: Tensor) -> float:
        """One step of training; the loss before it."""
        self.optimizer.zero_grad()
        loss = self.forward(tokens, targets)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def watched(self, tokens: Tensor, targets: Tensor) -> tuple[int, dict[str, int | None]]:
        """One more step, slowly: bytes sent, and bytes held between backward and step, activations at their highest."""
        self.optimizer.zero_grad()
        before = self._moved()
        with contextlib.ExitStack() as watching:
            traffics = [watching.enter_context(counted(group)) for group in self.groups]
            with self._ledger:
                self.forward(tokens, targets).backward()
                held, top = self._ledger.now(), self._ledger.tops["activations"]
            self.optimizer.step()
        sent = sum(traffic.bytes for traffic in traffics) + self._moved() - before
        found: dict[str, int | None] = {kind: held[kind] for kind in MEMORY}
        found["activations"] = top if self._threads is None else None  # a ledger watches one thread
        return sent, found

    def traced(self, tokens: Tensor, targets: Tensor, label: str) -> list[Span]:
        """One more step: when its parts ran (stream ``compute``), and when each message was under way.

        ``backward`` ends with the last gradient; what ``loss.backward()`` does after it is ``wait``.

        Args:
            label: the same on all ranks.
        """
        tape = Tape(dist.get_rank(), label)
        ours = [communicator(group) for group in self.groups]
        for each in ours:
            each.tracer = OperationTracer(tape, None)
        ready: list[float] = []
        hooks = [p.register_hook(lambda _: ready.append(time.monotonic())) for p in self._trained]
        try:
            self.optimizer.zero_grad()
            loss = tape.timed("forward", self.forward, tokens, targets)
            began = time.monotonic()
            loss.backward()
            tape.spans.append(Span(tape.rank, "compute", "backward", began, ready[-1]))
            tape.add("compute", "wait", ready[-1], 0)
            tape.timed("step", self.optimizer.step)
        finally:
            for each in ours:
                each.tracer = None
            for hook in hooks:
                hook.remove()
        return tape.spans

    def _moved(self) -> int:
        """Bytes between the devices of threads so far: tokens have 8, all else 4."""
        moved = self._threads.exchanges if self._threads is not None else {}
        return sum(count * (8 if name == "scatter" else 4) for name, count in moved.items())


def _optimizer(strategy: Strategy) -> Callable[[Iterable[Any]], torch.optim.Optimizer]:
    def adam(parameters: Iterable[Any]) -> torch.optim.Optimizer:
        return torch.optim.AdamW(parameters, lr=LR, eps=EPS)

    return {
        "adam": adam,
        "away": lambda parameters: OffloadedStates(adam(parameters)),
        "on-host": lambda parameters: OnHost(parameters, adam),
        "adam-8bit": lambda parameters: Adam8bit(parameters, lr=LR, eps=EPS),
    }[strategy.optimizer]
