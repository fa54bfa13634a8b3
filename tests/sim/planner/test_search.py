"""The search: that it finds what a loop over single plans finds, counts what it should, and is right about memory."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from sim.chip import CHIPS
from sim.planner.admission import admitted, layouts_of
from sim.planner.constants import SOFTWARE
from sim.planner.constraints import check
from sim.planner.hardware import hardware_of
from sim.planner.layout import LOOPED, SCHEDULES, VEE, Layout
from sim.planner.memory import fullest, ledgers
from sim.planner.models import MODELS
from sim.planner.search import RESERVED, search, simulated
from sim.planner.space import OFFLOADS, batch_of, narrow, space_of
from sim.planner.step import step_time

H100, NEW = hardware_of(CHIPS["h100"]), SOFTWARE["2024"]
LLAMA, MIXTRAL, DEEPSEEK = MODELS["llama3-8b"], MODELS["mixtral-8x7b"], MODELS["deepseek-v3"]
SPACE = space_of(LLAMA, 12, Layout(global_batch=24))


@pytest.fixture(scope="module")
def found():
    return search(LLAMA, SPACE, H100, NEW)


def by_hand(model, space) -> set[tuple]:
    """Every plan of the space that ``check`` lets pass, one at a time, without those that are another one."""
    plans = set()
    numbers = itertools.product(space.tp, space.pp, space.cp, space.ep, space.microbatch)
    for (tp, pp, cp, ep, microbatch), schedule, sp, zero in itertools.product(
        numbers, space.schedule, space.sp, space.zero
    ):
        if space.gpus % (tp * pp * cp) or (sp and tp == 1) or (pp == 1 and schedule != space.schedule[0]):
            continue
        dp = space.gpus // (tp * pp * cp)
        if zero and dp * cp == 1:
            continue
        for vpp in space.chunks(model, pp) if schedule in LOOPED else (1,):
            plan = replace(
                space.base, dp=dp, pp=pp, tp=tp, cp=cp, ep=ep, vpp=vpp, microbatch=microbatch, schedule=schedule, sp=sp,
                zero=zero,
            )  # fmt: skip
            try:
                check(model, plan, space.gpus)
            except ValueError:
                continue
            if (schedule in ("v-half", "v-min") and pp < 4) or (schedule == "v-min" and pp % 3 == 0):
                continue
            least = {"looped": pp, "zb-h1": pp, "zb-h2": 2 * pp - 1, **dict.fromkeys(VEE, 2 * pp)}.get(schedule, 1)
            if plan.microbatches < least or (schedule == "interleaved" and plan.microbatches % pp):
                continue
            for recompute, offload, overlap in itertools.product(space.recompute, space.offload, space.overlap):
                if ("parameters" in offload and zero < 3) or (not overlap and (zero == 3 or dp * cp == 1)):
                    continue
                plans.add((dp, pp, tp, cp, ep, vpp, microbatch, schedule, sp, zero, recompute, offload, overlap))
    return plans


def key(plan: Layout) -> tuple:
    names = ("dp", "pp", "tp", "cp", "ep", "vpp", "microbatch", "schedule", "sp", "zero", "recompute", "offload")
    return (*(getattr(plan, name) for name in names), plan.overlap)


@pytest.mark.parametrize(("model", "gpus", "batch"), [(LLAMA, 12, 24), (MIXTRAL, 8, 16), (LLAMA, 1, 4)])
def test_every_plan_is_there_once(model, gpus, batch):
    space = space_of(model, gpus, Layout(global_batch=batch))
    all_found = search(model, space, H100, NEW)
    plans = [key(all_found.plan(number).layout) for number in range(all_found.evaluated)]
    assert len(plans) == len(set(plans)) == all_found.evaluated
    assert set(plans) == by_hand(model, all_found.space)


def test_time_and_memory_are_those_of_single_plans(found):
    for number in range(0, found.evaluated, max(1, found.evaluated // 150)):
        plan = found.plan(number)
        stages = ledgers(LLAMA, plan.layout)
        assert plan.memory == pytest.approx(stages[fullest(stages)].total, rel=1e-12)
        assert plan.seconds == pytest.approx(step_time(LLAMA, plan.layout, H100, NEW).time_s, rel=1e-12)


def test_memory_of_stages_that_differ_is_the_fullest():
    space = space_of(DEEPSEEK, 64, Layout(global_batch=64), {"tp": 2, "zero": 1, "microbatch": 1})
    some = search(DEEPSEEK, space, H100, NEW)
    for number in range(0, some.evaluated, max(1, some.evaluated // 60)):
        plan = some.plan(number)
        stages = ledgers(DEEPSEEK, plan.layout)
        assert plan.memory == pytest.approx(stages[fullest(stages)].total, rel=1e-12)


def test_the_ranking_is_by_time_under_the_limit(found):
    best = found.best(50)
    assert found.limit == H100.chip.memory - RESERVED
    fits = np.flatnonzero(found.sizes <= found.limit)
    assert list(found.times[best]) == sorted(found.times[fits])[:50]
    assert max(found.sizes[best]) <= found.limit


def test_the_pareto_list_is_not_dominated(found):
    front = found.pareto()
    times, sizes = found.times, found.sizes
    for number in front:
        assert not ((times <= times[number]) & (sizes <= sizes[number]) & ((times < times[number]) | (sizes < sizes[number]))).any()  # fmt: skip  # noqa: E501
    rest = np.setdiff1d(np.flatnonzero(found.fits), front)[::97]
    for number in rest:
        assert any(times[f] <= times[number] and sizes[f] <= sizes[number] for f in front)


def test_what_is_rejected_says_why():
    _, _, rejected = admitted(LLAMA, SPACE)
    said = {one.constraint: one for one in rejected}
    assert "does not divide 12 GPUs" in said["GPUs"].example
    assert "use --tp" in said["heads"].example  # TP 3, 6 and 12 do not split 32 heads
    assert "use --cp" in said["sequence"].example
    assert "multiple of DP" in said["global batch"].example
    assert all(one.plans > 0 for one in rejected)


def test_what_is_rejected_and_what_is_not_are_all_there_is():
    # one schedule and no choices: the grid is 6 TP × 6 PP × 6 CP × 8 microbatches, as counted by hand
    fixed = {"schedule": "1f1b", "recompute": "none", "zero": 0, "sp": False, "offload": (), "overlap": True}
    space = space_of(LLAMA, 12, Layout(global_batch=24), fixed)
    all_found = search(LLAMA, space, H100, NEW)
    total = len(space.tp) * len(space.pp) * len(space.cp) * len(space.microbatch)
    assert all_found.evaluated + sum(one.plans for one in all_found.rejected) == total == 6 * 6 * 6 * 8


@pytest.mark.parametrize(("name", "gpus", "gpu", "software"), [
    ("llama3-70b", 64, "h100", "2024"), ("megatron-22b", 32, "a100", "2022"), ("qwen3-30b-a3b", 16, "h100", "2024"),
])  # fmt: skip
def test_events_say_the_same_within_three_percent(name, gpus, gpu, software):
    model, hardware = MODELS[name], hardware_of(CHIPS[gpu])
    all_found = search(model, space_of(model, gpus, Layout(global_batch=64)), hardware, SOFTWARE[software])
    plans, _ = simulated(model, [all_found.plan(n) for n in all_found.best(60)], hardware, SOFTWARE[software])
    assert any(plan.layout.pp > 1 for plan in plans)
    for plan in plans:
        assert plan.simulated_s == pytest.approx(plan.seconds, rel=0.03)


def test_pipelines_of_every_schedule_agree_with_their_events():
    model = MODELS["llama3-70b"]
    space = space_of(model, 64, Layout(global_batch=64), {"tp": 4, "pp": 4, "cp": 1, "zero": 1, "overlap": True})
    all_found = search(model, space, H100, NEW)
    for place, schedule in enumerate(all_found.space.schedule):
        numbers = all_found.best(3, all_found.values("schedule") == place)
        for plan in simulated(model, [all_found.plan(number) for number in numbers], H100, NEW)[0]:
            assert plan.layout.schedule == schedule
            assert plan.simulated_s == pytest.approx(plan.seconds, rel=0.03)
    assert set(all_found.space.schedule) == set(SCHEDULES)


def test_a_stage_that_host_memory_holds_up_sets_the_pace():
    # the last stage has the output and fewer layers: it computes longest, but the others offload more
    layout = Layout(
        dp=64, pp=32, ep=2, etp=1, global_batch=15360, schedule="zb-h2", zero=1, offload=("activations",)
    )  # fmt: skip
    hardware = hardware_of(CHIPS["h800"])
    step = step_time(DEEPSEEK, layout, hardware, NEW)
    assert step.time_s >= layout.microbatches * step.others.slot


def test_a_space_keeps_what_is_fixed():
    space = space_of(LLAMA, 16, Layout(), {"tp": 4, "vpp": 4, "zero": 1})
    assert space.tp == (4,)
    assert space.schedule == ("interleaved",)
    assert space.vpp == (4,)
    assert narrow(space).offload == ((),)
    assert set(OFFLOADS) == set(space.offload)
    all_found = search(LLAMA, replace(space, dp=(2,)), H100, NEW)
    assert set(all_found.values("dp")) == {2}


@pytest.mark.parametrize(
    ("gpus", "sequence", "batch"), [(64, 8192, 512), (96, 8192, 384), (1024, 2048, 2048), (97, 8192, 388)]
)
def test_a_batch_of_about_four_million_tokens_that_the_gpus_divide(gpus, sequence, batch):
    assert batch_of(replace(LLAMA, sequence=sequence), gpus) == batch


def test_a_space_that_is_too_large_loses_what_is_seldom_best():
    space, choices, _ = admitted(DEEPSEEK, space_of(DEEPSEEK, 2048, Layout(global_batch=15360)))
    assert space.overlap == (True,)
    assert space.offload == ((),)
    assert "zbv" in space.schedule
    assert sum(len(choice.pp) for choice in choices) > 1_000_000
    assert next(layouts_of(choices[0], [0])).gpus == 2048


def test_a_hundred_thousand_gpus():
    model = MODELS["llama3.1-405b"]
    all_found = search(model, space_of(model, 100_000, Layout()), H100, NEW)
    best = all_found.plan(all_found.best(1)[0])
    assert best.layout.gpus == 100_000
    assert 0 < best.seconds < 60
    assert np.isfinite(all_found.times).all()
    assert (all_found.sizes > 0).all()
