"""The bubble of a real pipeline beside the one that the simulator predicts."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from itertools import chain
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

# Of stages that compute: a forward of 115 ms on one idle core, beside which a message of 1 MiB is small.
WIDTH, DEPTH, ROWS = 1024, 16, 256


@dataclass(frozen=True)
class Measured:
    """What a rank saw: the spans of each step, and the seconds of a message between the first two ranks."""

    steps: list[list[Span]]
    message: float


def measured(name: str, microbatches: int, times: Times | None, steps: int) -> Measured:
    """On every rank. times: of stages that sleep; None for such that compute."""
    torch.manual_seed(0)
    chunks = find(name).chunks
    stages = [Sleeper(times, chunks) if times else worker(WIDTH, DEPTH) for _ in range(chunks)]
    width = 1 if times else WIDTH
    x = torch.randn(microbatches * (1 if times else ROWS), width, requires_grad=True)
    pipe = Pipeline(stages, name, microbatches, _loss, timeout=120)
    message = message_time(x[: len(x) // microbatches])
    found = []
    for step in range(steps + 1):
        dist.barrier()
        pipe.tape = Tape(dist.get_rank(), f"step {step}")
        pipe.step(x, x)
        found.append(pipe.tape.spans)
    return Measured(found[1:], message)  # the first has the words about shapes in it


def message_time(x: Tensor, rounds: int = 20) -> float:
    """Half of the median round trip of such a tensor between ranks 0 and 1, in seconds."""
    rank, took, x = dist.get_rank(), [], x.detach().clone()
    for _ in range(rounds if rank < 2 else 0):
        began = time.perf_counter()
        for source in (0, 1):
            dist.send(x, 1 - rank) if rank == source else dist.recv(x, 1 - rank)
        took.append((time.perf_counter() - began) / 2)
    return median(took) if took else 0.0


def _loss(y: Tensor, target: Tensor) -> Tensor:
    return y.sum()


def times_of(everyone: list[list[Span]], chunks: int, message: float) -> Times:
    """The median times of the ranks' actions in a step; a rank that computes more slowly is so in all of them."""
    took = []
    for spans in everyone:
        by_kind: defaultdict[str, list[float]] = defaultdict(list)
        for span in spans:
            if span.stream == "compute" and span.name[0] in "FBIW":
                by_kind[span.name[0]].append((span.end - span.start) * chunks)
        took.append({kind: median(each) for kind, each in by_kind.items()})
    fastest = min(took, key=lambda one: sum(one.values()))
    slower = {rank: sum(one.values()) / sum(fastest.values()) for rank, one in enumerate(took)}
    weight = fastest.get("W")
    backward = fastest["B"] if weight is None else fastest["I"] + weight
    return Times(fastest["F"], backward, weight, p2p=message, straggler=slower)


def compare(name: str, ranks: int, microbatches: int, times: Times | None, everyone: list[Measured]) -> dict[str, Any]:
    """Medians over the steps; for stages that compute, the prediction is from their own times and that of a message."""
    chunks, message = find(name).chunks, everyone[0].message
    steps = list(zip(*(one.steps for one in everyone), strict=True))
    fractions = [bubble_fraction(chain.from_iterable(step)) for step in steps]
    predicted = [
        simulate(name, ranks, microbatches, times=times or times_of(list(step), chunks, message)).bubble_fraction
        for step in steps
    ]
    return {
        "schedule": name,
        "stages": ranks,
        "microbatches": microbatches,
        "message_s": message,
        "predicted": median(predicted),
        "measured": median(fractions),
        "error": median(a - b for a, b in zip(fractions, predicted, strict=True)) / max(median(predicted), 1e-12),
    }
