"""What a simulated pipeline looked like, for the pictures of it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from collectives.span import Span
from parallel.pipeline.record import action_name, end_of

from .pipeline import PipelineRun
from .replay import Curve, Replay
from .units import show_time
from .words import IN_ENGLISH, Words

MOST_SPANS = 200_000  # what a page can still show


def replay(run: PipelineRun, words: Words = IN_ENGLISH) -> Replay:
    """The record of a run: a box an action, with the microbatch in it; transfers, if they take time; what ranks held.

    words: of its title, its names and its pictures.

    Raises:
        ValueError: too many boxes to be looked at.
    """
    boxes = sum(map(len, run.steps)) + 2 * len(run.transfers)
    if boxes > MOST_SPANS:
        raise ValueError(
            f"{boxes} boxes are too many for a picture: take fewer microbatches (at most {MOST_SPANS} boxes)"
        )
    ranks, chunks = run.stages.ranks, run.stages.chunks
    title = words(
        "title.pipeline",
        schedule=run.schedule,
        stages=words.counted("stages", ranks),
        microbatches=words.counted("microbatches", run.microbatches),
        chunks=words("title.chunks", chunks=chunks) if chunks > 1 else "",
        time=show_time(run.makespan),
        bubble=f"{run.bubble_fraction:.1%}",
        held=f"{max(run.peak_activations):.4g}",
    )
    spans = [*_compute(run), *_syncs(run), *_optimizers(run), *(_transfers(run) if run.times.p2p else _arrows(run))]
    facts = {**run.facts(), "peak_activations": _peaks(run, words)}
    names = [words("stage", stage=rank) if chunks == 1 else words("rank", rank=rank) for rank in range(ranks)]
    memory = [_memory(run, rank, names[rank]) for rank in range(ranks)]
    return Replay(title, facts, names, spans, memory=memory, words=words)


def _compute(run: PipelineRun) -> Iterator[Span]:
    together = run.times.overlap == "max"
    for rank, steps in enumerate(run.steps):
        for step, start, end in zip(steps, run.starts[rank], run.ends[rank], strict=True):
            if len(step) == 1 or together:
                for action in step:
                    yield Span(rank, "compute", action_name(action, run.stages.chunks), start, end)
            else:  # overlap is worth nothing: one after the other
                first, second = step
                whole = run.times.of(type(first)) + run.times.of(type(second))
                middle = start + (end - start) * run.times.of(type(first)) / whole if whole else end
                yield Span(rank, "compute", action_name(first, run.stages.chunks), start, middle)
                yield Span(rank, "compute", action_name(second, run.stages.chunks), middle, end)


def _syncs(run: PipelineRun) -> Iterator[Span]:
    for rank, (start, end) in enumerate(run.sync_waits):
        if end > start:
            yield Span(rank, "compute", "sync", start, end)


def _optimizers(run: PipelineRun) -> Iterator[Span]:
    for rank, (start, end) in enumerate(run.optimizers):
        yield Span(rank, "compute", "optimizer", start, end)


def _transfers(run: PipelineRun) -> Iterator[Span]:
    for transfer, start, end in run.transfers:
        yield end_of(transfer, "send", start, end)
        yield end_of(transfer, "recv", start, end)


def _arrows(run: PipelineRun) -> Iterator[Span]:
    """Transfers that take no time, for the arrows of a trace: from the end of a box to the start of another."""
    for rank, steps in enumerate(run.steps):
        for step, start, end in zip(steps, run.starts[rank], run.ends[rank], strict=True):
            for action in step:
                taken, given = run.stages.takes(rank, action), run.stages.gives(rank, action)
                if taken is not None and taken.source != rank:
                    yield end_of(taken, "recv", start, start)
                if given is not None and given.to != rank:
                    yield end_of(given, "send", end, end)


def _peaks(run: PipelineRun, words: Words) -> str:
    """What each rank holds at most; of many ranks the largest."""
    peaks = [f"{peak:.4g}" for peak in run.peak_activations]
    return ", ".join(peaks) if len(peaks) <= 8 else words("peaks.most", peak=f"{max(run.peak_activations):.4g}")


def _memory(run: PipelineRun, rank: int, name: str) -> Curve:
    times, values = [0.0], [0.0]
    for time, changes in groupby(run.held(rank), key=lambda change: change[0]):
        *_, (_, held) = changes
        times.append(time)
        values.append(held)
    return Curve(name, "microbatches", times, values)
