"""What a real pipeline does in which order, and what it holds, against the schedule and the simulator."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from collectives.span import chrome_trace
from collectives.trace import Tape
from parallel.deferred import defer
from parallel.memory import Ledger
from parallel.model import GPT, Config
from parallel.pipeline import Exchange, Stages, find, schedules, with_transfers
from parallel.pipeline.chunk import Chunk
from parallel.pipeline.record import action_name, bubble_fraction
from parallel.pipeline.splitting import split
from sim.draw.chart import chart
from sim.draw.svg import svg
from sim.draw.terminal import gantt
from sim.pipeline import simulate
from sim.pipeline_replay import replay
from sim.replay import Replay
from tests.parallel.pipelined import batch, pipeline, whole

NAMES = [schedule.name for schedule in schedules()]


def recorded(names, microbatches):
    """By schedule: this rank's spans of a step, and the most that it held."""
    found = {}
    for name in names:
        pipe = pipeline(whole(2 * dist.get_world_size()), name, microbatches)
        pipe.tape = Tape(dist.get_rank(), name)
        pipe.step(*batch(microbatches))
        found[name] = pipe.tape.spans, pipe.peak_activations
    return found


@pytest.mark.parametrize(("size", "microbatches"), [(1, 3), (2, 5), (3, 2), (4, 6)])
def test_actions_messages_and_peaks_are_those_of_the_schedule(ranks, size, microbatches):
    everyone = ranks(size, recorded, NAMES, microbatches)
    for name in NAMES:
        schedule, run = find(name), simulate(name, size, microbatches)
        turns = with_transfers(schedule, size, microbatches)
        for rank, found in enumerate(everyone):
            spans, peak = found[name]
            ordered = sorted((s for s in spans if s.stream == "compute"), key=lambda span: span.start)
            program = [action for step in schedule.steps(rank, size, microbatches) for action in step]
            assert [span.name for span in ordered] == [action_name(a, schedule.chunks) for a in program]
            assert peak == run.peak_activations[rank]
            exchanges = [turn for turn in turns[rank] if isinstance(turn, Exchange)]
            for stream, lists in (("send", [e.sends for e in exchanges]), ("recv", [e.receives for e in exchanges])):
                messages = sorted((t.kind, t.microbatch, t.source, t.to) for each in lists for t in each)
                assert messages == sorted(
                    (kind, int(number), *map(int, span.link.split("->")))
                    for span in spans
                    if span.stream == stream
                    for kind, number in [span.name.split()]
                )


def test_a_recorded_step_has_the_words_of_a_simulated_one_and_can_be_drawn(ranks):
    spans = [span for found in ranks(3, recorded, ["1f1b"], 4) for span in found["1f1b"][0]]
    simulated = replay(simulate("1f1b", 3, 4)).spans
    for stream in ("compute", "send", "recv"):
        words = [sorted((s.rank, s.name, s.link) for s in each if s.stream == stream) for each in (spans, simulated)]
        assert words[0] == words[1]
    start = min(span.start for span in spans)
    run = Replay("1f1b", {}, [f"stage {i}" for i in range(3)], [s.moved(-start) for s in spans])
    assert "stage 2" in gantt(run, 100)
    assert "stage 2" in svg(chart(run))
    events = chrome_trace(spans)["traceEvents"]
    assert sum(event["ph"] == "s" for event in events) == sum(event["ph"] == "f" for event in events) == 2 * 2 * 4
    assert 0 < bubble_fraction(spans) < 1


def test_the_bubble_of_spans_is_that_of_the_simulator():
    for name in NAMES:
        run = simulate(name, 4, 8)
        spans = [s.moved(3.0) for s in replay(run).spans]
        assert bubble_fraction(spans) == pytest.approx(run.bubble_fraction)
    with pytest.raises(ValueError, match="none is of a pipeline's action"):
        bubble_fraction([])


ROWS, LENGTH, HIDDEN = 1, 16, 32
MESSAGE = ROWS * LENGTH * HIDDEN * 4  # bytes at a boundary


def measured(names, microbatches):
    """By schedule: bytes that a microbatch holds between its forward and its backward, and the most in a step."""
    size, rank = dist.get_world_size(), dist.get_rank()
    found = {}
    for name in names:
        shape = Config(layers=2 * size, hidden=HIDDEN, heads=2, vocabulary=8, positions=LENGTH)
        [module], _ = split(GPT(shape), Stages(find(name), size), rank)
        chunk = Chunk(module, recompute=False, owed=defer(module)[0] if name.startswith("zb") else None)
        x = torch.zeros(ROWS, LENGTH, dtype=torch.int64)
        with Ledger(module) as ledger:
            chunk.forward(0, [x if rank == 0 else torch.zeros(ROWS, LENGTH, HIDDEN).requires_grad_()], None)
            unit = ledger.now()["activations"]
        tops = []
        for m in (1, microbatches):
            pipe = pipeline(GPT(shape), name, m)
            tokens = torch.arange(ROWS * m * LENGTH).view(-1, LENGTH) % 8
            with Ledger(pipe.module) as ledger:
                pipe.step(tokens, tokens)
            tops.append(ledger.tops["activations"])
        found[name] = unit, *tops
    return found


def test_bytes_held_are_the_microbatches_that_the_simulator_predicts(ranks):
    names, m = ["gpipe", "1f1b", "zb-h1"], 8
    for rank, found in enumerate(ranks(2, measured, names, m)):
        for name in names:
            unit, one, most = found[name]
            passing = one - unit  # what comes and goes within an action
            others = most - passing - simulate(name, 2, m).peak_activations[rank] * unit
            assert passing + 4 * MESSAGE < unit / 2  # or a microbatch more would not show
            # between its two halves a backward holds what the second needs, which is less than the simulator counts
            assert (-unit / 2 if name == "zb-h1" else 0) <= others <= 4 * MESSAGE, (name, rank, others)
