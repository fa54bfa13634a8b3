"""Layouts: who gets which layers, what is in flight, and what cannot be."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from parallel.pipeline import Stages, find
from sim.pipeline import simulate
from sim.planner.constraints import check, filled
from sim.planner.layout import SCHEDULES, VEE, Layout
from sim.planner.models import MODELS
from sim.planner.transformer import changed

GPT3 = MODELS["gpt3-175b"]


def test_layers_as_the_schedules_place_them():
    """Sizes of virtual stages differ by at most one; dense layers come first."""
    chance = random.Random(3)
    for _ in range(400):
        schedule = chance.choice(["1f1b", "interleaved", "zbv"])
        pp, vpp = chance.randint(1, 6), chance.randint(2, 4) if schedule == "interleaved" else 1
        chunks = 2 if schedule == "zbv" else vpp
        layers = chance.randint(pp * chunks, 60)
        model = changed(MODELS["deepseek-v3"], layers=layers, dense_layers=chance.randint(0, min(4, layers)))
        layout = Layout(pp=pp, vpp=vpp, schedule=schedule)
        found = [layout.layers_of(model, stage) for stage in range(pp)]
        base, more = divmod(layers, pp * chunks)
        sizes = [base] * (pp * chunks)
        for i in [*range(1, pp * chunks - 1), 0][:more]:
            sizes[i] += 1
        kinds, at = [], 0
        for size in sizes:
            kinds.append((size, sum(layer < model.dense_layers for layer in range(at, at + size))))
            at += size
        placed = Stages(find(schedule), pp, vpp if schedule == "interleaved" else None)
        for stage in range(pp):
            chosen = [kinds[virtual] for virtual in placed.stage[stage]]
            assert found[stage] == (sum(size for size, _ in chosen), sum(dense for _, dense in chosen)), (
                layout,
                layers,
            )


def test_llama_405b_on_16_stages():
    """Grattafiori et al. 2024, section 3.3.2: the first and the last stage have one layer fewer."""
    found = [Layout(pp=16).layers_of(MODELS["llama3.1-405b"], stage)[0] for stage in range(16)]
    assert found == [7, *[8] * 14, 7]


@pytest.mark.parametrize(
    "schedule", [name for name in SCHEDULES if name not in ("v-half", "v-min", "dualpipev", "zbv")]
)
@pytest.mark.parametrize(("pp", "m", "vpp"), [(4, 8, 2), (4, 16, 3), (3, 3, 2), (6, 24, 2), (8, 8, 4)])
def test_in_flight_is_what_the_schedule_holds(schedule, pp, m, vpp):
    chunks = vpp if schedule in ("interleaved", "looped") else None
    held = simulate(schedule, pp, m, chunks).peak_activations
    layout = Layout(pp=pp, vpp=vpp if chunks else 1, schedule=schedule, global_batch=m)
    assert [layout.in_flight(stage) for stage in range(pp)] == pytest.approx(held)


@pytest.mark.parametrize("schedule", VEE)
@pytest.mark.parametrize(("pp", "m"), [(4, 12), (8, 32), (3, 9), (5, 20)])
def test_in_flight_of_v_shapes_is_enough_and_near(schedule, pp, m):
    held = max(simulate(schedule, pp, m).peak_activations)
    bound = Layout(pp=pp, schedule=schedule, global_batch=m).in_flight(0)
    assert held <= bound + 1e-9
    assert bound <= held + 1.01


def test_sizes():
    layout = Layout(dp=6, pp=8, tp=4, cp=2, microbatch=3, global_batch=6 * 3 * 16)
    assert (layout.gpus, layout.microbatches, layout.samples, layout.replicas) == (384, 16, 288, 12)


def test_what_is_left_is_data_parallel():
    assert filled(Layout(dp=0, tp=8, pp=4), 64).dp == 2
    assert filled(Layout(dp=0, tp=8), None).dp == 1
    with pytest.raises(ValueError, match="gpus=60 is not a multiple of PP 4 × CP 1 × TP 8 = 32: use --gpus 64"):
        filled(Layout(dp=0, tp=8, pp=4), 60)


LLAMA, MIXTRAL = MODELS["llama3-70b"], MODELS["mixtral-8x7b"]


@pytest.mark.parametrize(
    ("model", "layout", "gpus", "sentence"),
    [
        (GPT3, Layout(tp=7), None, "tp=7 does not split gpt3-175b evenly .*: use --tp 8"),
        (LLAMA, Layout(tp=3), None, "tp=3 .*8 of keys and values.*: use --tp (2|4)"),
        (GPT3, Layout(pp=100), None, "pp=100 with 1 chunk a rank needs 100 layers, and gpt3-175b has 96: use --pp 96"),
        (GPT3, Layout(pp=64, vpp=2, schedule="interleaved"), None, "needs 128 layers.*use --pp 48"),
        (GPT3, Layout(dp=3, tp=8), 32, "gpus=32 is not DP 3 × PP 1 × CP 1 × TP 8 = 24: use --dp 4"),
        (GPT3, Layout(dp=3, tp=8), 30, "use --dp 4 and --gpus 32"),
        (GPT3, Layout(cp=3), None, "cp=3 does not divide the sequence of 2048 tokens: use --cp (2|4)"),
        (GPT3, Layout(ep=2, dp=2), None, "ep=2: gpt3-175b has no experts: use --ep 1"),
        (MIXTRAL, Layout(ep=3, dp=6), None, "ep=3 does not share 8 experts.*: use --ep 2"),
        (MIXTRAL, Layout(ep=8, dp=4), None, "ep=8 .*use --ep 4"),
        (GPT3, Layout(dp=4, microbatch=2, global_batch=12), None, "multiple of DP 4 .*: use --global-batch 16"),
        (GPT3, Layout(pp=4, vpp=2), None, "vpp=2: a rank of 1f1b has 1 model chunks by itself"),
        (GPT3, Layout(pp=4, schedule="1f2b"), None, "schedule '1f2b' is unknown: use 1f1b"),
        (GPT3, Layout(zero=4), None, "zero=4: use 0"),
        (GPT3, Layout(tp=0), None, "tp=0: use a number from 1"),
        (GPT3, Layout(dp=10**30), None, "dp=1000000000000000000000000000000: use a number from 1 to"),
        (GPT3, Layout(wire="int3"), None, "wire 'int3' is unknown: use fp32"),
    ],
)  # fmt: skip
def test_what_cannot_be_says_what_can(model, layout, gpus, sentence):
    with pytest.raises(ValueError, match=sentence):
        check(model, layout, gpus)


def test_what_can_be_is_not_refused():
    for model in (GPT3, LLAMA, MIXTRAL, MODELS["deepseek-v3"]):
        for tp in (1, 2, 4, 8):
            for pp in (1, 2, 4, 8):
                check(model, Layout(dp=8, tp=tp, pp=pp, sp=tp > 1))
    check(MODELS["llama3.1-405b"], Layout(dp=128, tp=8, pp=16), 16384)
    check(MODELS["deepseek-v3"], Layout(dp=64, pp=4, ep=64, vpp=4, schedule="interleaved"), 256)


def test_the_nearest_choice_can_be():
    """What the sentence proposes is accepted."""
    assert check(GPT3, replace(Layout(pp=100), pp=96)) == []
    check(MIXTRAL, Layout(ep=2, dp=6))
    check(GPT3, Layout(dp=4, tp=8), 32)


def test_notes():
    assert "126 layers do not divide by 16" in check(MODELS["llama3.1-405b"], Layout(pp=16))[0]
    assert "with --global-batch 8" in check(GPT3, Layout(pp=4, vpp=2, schedule="interleaved", global_batch=6))[0]
    assert "ZeRO-3 beside a pipeline" in check(GPT3, Layout(pp=4, dp=2, zero=3))[0]
