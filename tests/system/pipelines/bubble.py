"""The bubble of a real pipeline beside the one that the simulator predicts."""

from __future__ import annotations

from statistics import median
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from collectives.span import Span
from collectives.trace import Tape
from parallel.pipeline import find
from parallel.pipeline.engine import Pipeline
from parallel.pipeline.record import bubble_fraction
from sim.pipeline import Times, simulate

from .stages import Sleeper, worker

WIDTH, DEPTH, ROWS = 512, 4, 64  # of stages that compute
KINDS = {"F": "forward", "B": "backward", "I": "input", "W": "weight"}


def measured(name: str, microbatches: int, times: Times | None, steps: int) -> list[list[Span]]:
    """On every rank: the spans of each step. times: of stages that sleep; None for such that compute."""
    torch.manual_seed(0)
    chunks = find(name).chunks
    stages = [Sleeper(times, chunks) if times else worker(WIDTH, DEPTH) for _ in range(chunks)]
    width = 1 if times else WIDTH
    x = torch.randn(microbatches * (1 if times else ROWS), width, requires_grad=True)
    pipe = Pipeline(stages, name, microbatches, _loss, timeout=120)
    found = []
    for step in range(steps + 1):
        dist.barrier()
        pipe.tape = Tape(dist.get_rank(), f"step {step}")
        pipe.step(x, x)
        found.append(pipe.tape.spans)
    return found[1:]  # the first has the words about shapes in it


def _loss(y: Tensor, target: Tensor) -> Tensor:
    return y.sum()


def times_of(spans: list[Span], chunks: int) -> Times:
    """The median times of a rank's actions, whatever the rank."""
    by_kind: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for span in spans:
        if span.stream == "compute":
            by_kind[span.name[0]].append((span.end - span.start) * chunks)
    took = {kind: median(each) if each else 0.0 for kind, each in by_kind.items()}
    if by_kind["B"]:
        return Times(took["F"], took["B"])
    return Times(took["F"], took["I"] + took["W"], took["W"])


def compare(name: str, ranks: int, microbatches: int, times: Times | None, everyone: list[Any]) -> dict[str, Any]:
    """Medians over the steps; for stages that compute, the prediction is from their own times."""
    chunks = find(name).chunks
    steps = [[span for rank in everyone for span in rank[step]] for step in range(len(everyone[0]))]
    fractions = [bubble_fraction(spans) for spans in steps]
    predicted = [
        simulate(name, ranks, microbatches, times=times or times_of(spans, chunks)).bubble_fraction for spans in steps
    ]
    return {
        "schedule": name,
        "stages": ranks,
        "microbatches": microbatches,
        "predicted": median(predicted),
        "measured": median(fractions),
        "error": median(a - b for a, b in zip(fractions, predicted, strict=True)) / max(median(predicted), 1e-12),
    }
