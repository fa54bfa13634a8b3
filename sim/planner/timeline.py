"""A step as events: the plan's pipeline on the clock, with the durations of its closed form; and what ranks hold."""

from __future__ import annotations

from dataclasses import replace

from parallel.pipeline import find

from ..pipeline import PipelineRun, Times, simulate
from ..pipeline_replay import replay as pipeline_replay
from ..replay import Curve, Replay
from .layout import VEE, Layout
from .memory import stage_ledger
from .step import StepTime
from .transformer import Transformer

MOST_ACTIONS = 60_000  # what takes a fraction of a second


def engine_times(step: StepTime, layout: Layout) -> Times:
    """The durations of a step for :func:`sim.pipeline.simulate`; its heaviest stage is a straggler among the others."""
    if layout.pp == 1:
        return Times(step.heaviest.of(0), step.heaviest.of(1), step.heaviest.weight, optimizer=step.after_s)
    rest = step.others
    factor = step.heaviest.slot / rest.slot
    heaviest = 0 if layout.schedule in VEE else layout.pp - 1
    straggler = {heaviest: factor} if factor > 1 else {}
    return Times(rest.of(0), rest.of(1), rest.weight, step.p2p_s, straggler=straggler)


def actions(layout: Layout) -> int:
    """How many the schedule has, about."""
    return 2 * layout.pp * layout.microbatches * layout.chunks


def run(step: StepTime, layout: Layout) -> PipelineRun:
    """The pipeline of a step, event by event. O(actions · log(ranks))."""
    return simulate(find(layout.schedule), layout.pp, layout.microbatches, layout.chunks, engine_times(step, layout))


def pipeline_s(step: StepTime, layout: Layout) -> float:
    """Seconds of the pipeline as the events say."""
    return run(step, layout).stage_span


def simulated_s(step: StepTime, layout: Layout) -> float:
    """The same of the step: the pipeline, and what follows it."""
    return pipeline_s(step, layout) + step.after_s


def replay(model: Transformer, layout: Layout, step: StepTime) -> Replay:
    """The record of a step for pictures, with what each stage holds, in bytes, over time.

    Raises:
        ValueError: too many boxes to be looked at.
    """
    record = pipeline_replay(run(step, layout))
    curves = []
    for stage, held in enumerate(record.memory):
        ledger = stage_ledger(model, layout, stage)
        each = (ledger.activations + ledger.logits) / max(layout.in_flight(stage), 1)
        always = ledger.total - ledger.activations - ledger.logits
        curves.append(Curve(held.name, "bytes", held.times, [always + number * each for number in held.values]))
    title = f"{model.name}: {record.title}"
    return replace(record, title=title, memory=curves)
