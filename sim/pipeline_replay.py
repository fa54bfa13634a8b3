"""What a simulated pipeline looked like, for the pictures of it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from collectives.span import Span
from parallel.pipeline.schedule import LETTERS, Action

from .pipeline import PipelineRun
from .replay import Curve, Replay
from .units import show_time

MOST_SPANS = 200_000  # what a page can still show


def replay(run: PipelineRun) -> Replay:
    """The record of a run: a box an action, with the microbatch in it; transfers, if they take time; what ranks held.

    Raises:
        ValueError: too many boxes to be looked at.
    """
    boxes = sum(map(len, run.steps)) + 2 * len(run.transfers)
    if boxes > MOST_SPANS:
        raise ValueError(
            f"{boxes} boxes are too many for a picture: take fewer microbatches (at most {MOST_SPANS} boxes)"
        )
    ranks, chunks = run.stages.ranks, run.stages.chunks
    title = (
        f"{run.schedule} · {ranks} stages, {run.microbatches} microbatches"
        + (f", {chunks} chunks" if chunks > 1 else "")
        + f": {show_time(run.makespan)}, bubble {run.bubble_fraction:.1%}, holds {max(run.peak_activations):.4g}"
    )
    spans = [*_compute(run), *_optimizers(run), *_transfers(run)]
    names = [f"{'stage' if chunks == 1 else 'rank'} {rank}" for rank in range(ranks)]
    return Replay(title, run.facts(), names, spans, memory=[_memory(run, rank, names[rank]) for rank in range(ranks)])


def _compute(run: PipelineRun) -> Iterator[Span]:
    together = run.times.overlap == "max"
    for rank, steps in enumerate(run.steps):
        for step, start, end in zip(steps, run.starts[rank], run.ends[rank], strict=True):
            if len(step) == 1 or together:
                for action in step:
                    yield Span(rank, "compute", _name(run, action), start, end)
            else:  # overlap is worth nothing: one after the other
                first, second = step
                whole = run.times.of(type(first)) + run.times.of(type(second))
                middle = start + (end - start) * run.times.of(type(first)) / whole if whole else end
                yield Span(rank, "compute", _name(run, first), start, middle)
                yield Span(rank, "compute", _name(run, second), middle, end)


def _name(run: PipelineRun, action: Action) -> str:
    name = f"{LETTERS[type(action)]} {action.microbatch}"
    return f"{name} c{action.chunk}" if run.stages.chunks > 1 else name


def _optimizers(run: PipelineRun) -> Iterator[Span]:
    for rank, (start, end) in enumerate(run.optimizers):
        yield Span(rank, "compute", "optimizer", start, end)


def _transfers(run: PipelineRun) -> Iterator[Span]:
    for transfer, start, end in run.transfers:
        name = f"{transfer.kind} {transfer.microbatch}"
        link = f"{transfer.source}->{transfer.to}"
        message = f"{transfer.kind} {transfer.microbatch} {transfer.stage}"
        yield Span(transfer.source, "send", name, start, end, link=link, message=message)
        yield Span(transfer.to, "recv", name, start, end, link=link, message=message)


def _memory(run: PipelineRun, rank: int, name: str) -> Curve:
    times, values = [0.0], [0.0]
    for time, changes in groupby(run.held(rank), key=lambda change: change[0]):
        *_, (_, held) = changes
        times.append(time)
        values.append(held)
    return Curve(name, "microbatches", times, values)
