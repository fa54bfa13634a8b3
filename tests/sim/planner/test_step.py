"""The time of a step: what adds up, what must be longer than what, and the same plan as events."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from sim.chip import CHIPS
from sim.planner import links
from sim.planner.constants import SOFTWARE, calibrated, error_of, software_of
from sim.planner.hardware import hardware_of
from sim.planner.layout import VEE, Layout
from sim.planner.models import MODELS
from sim.planner.parameters import on_stage
from sim.planner.precision import find_precision
from sim.planner.step import step_time
from sim.planner.timeline import replay, simulated_s
from sim.planner.utilisation import hardware_flops, model_flops, utilisation
from sim.planner.work import layer_work
from sim.presets import find_machine

A100, H100 = hardware_of(CHIPS["a100"]), hardware_of(CHIPS["h100"])
OLD, NEW = SOFTWARE["2022"], SOFTWARE["2024"]
GPT3, LLAMA = MODELS["gpt3-175b"], MODELS["llama3-70b"]
PLAN = Layout(dp=2, pp=4, tp=8, sp=True, zero=1, global_batch=128)


def seconds(model=LLAMA, layout=PLAN, hardware=H100, software=NEW) -> float:
    return step_time(model, layout, hardware, software).time_s


@pytest.mark.parametrize("layout", [
    PLAN,
    Layout(dp=8, zero=3, global_batch=64),
    Layout(dp=2, pp=8, tp=4, vpp=5, schedule="interleaved", recompute="full", global_batch=64),
    replace(PLAN, schedule="zbv", offload=("optimizer", "activations")),
    replace(PLAN, dp=1, cp=2, flash=False, recompute="selective"),
])  # fmt: skip
def test_the_breakdown_adds_up_exactly(layout):
    step = step_time(LLAMA, layout, H100, NEW)
    assert sum(step.breakdown.values()) == step.time_s
    assert all(value >= 0 for value in step.breakdown.values())


def test_one_gpu_only_computes_and_updates():
    step = step_time(MODELS["gpt2"], Layout(global_batch=4, microbatch=4), A100, OLD)
    assert {name for name, value in step.breakdown.items() if value} == {"compute", "optimizer"}


def test_no_faster_than_the_peak():
    for model, layout in itertools.product((GPT3, LLAMA), (PLAN, replace(PLAN, pp=1), replace(PLAN, tp=1, sp=False))):
        useful = model_flops(model, layout)
        assert 0 < utilisation(useful, seconds(model, layout), layout, H100) < NEW.matmul


def test_twice_the_microbatches_take_a_slot_each():
    few, many = (step_time(GPT3, Layout(dp=1, pp=8, tp=8, global_batch=batch), A100, OLD) for batch in (64, 128))
    longer = 64 * few.heaviest.slot + (many.p2p - few.p2p)
    assert many.time_s - few.time_s == pytest.approx(longer)


def test_the_bubble_of_equal_stages_is_the_formula():
    layout = Layout(pp=8, tp=8, global_batch=64)
    step = step_time(GPT3, layout, A100, OLD)
    assert step.bubble == pytest.approx(7 * step.others.slot)
    chunked = step_time(GPT3, replace(layout, vpp=4, schedule="interleaved"), A100, OLD)
    assert chunked.bubble == pytest.approx(7 * chunked.others.slot / 4)


def test_full_recompute_adds_a_forward():
    layout = Layout(tp=8, global_batch=4, microbatch=4)
    once, again = (step_time(GPT3, replace(layout, recompute=recompute), A100, OLD) for recompute in ("none", "full"))
    work = layer_work(GPT3, layout, A100, OLD)
    assert again.compute - once.compute == pytest.approx(96 * work.forward)
    assert again.tp - once.tp == pytest.approx(96 * work.tp)


def test_selective_recompute_adds_attention_and_nothing_with_flash():
    layout = Layout(tp=8, flash=False, global_batch=1)
    once, again = (
        step_time(GPT3, replace(layout, recompute=recompute), A100, OLD) for recompute in ("none", "selective")
    )
    assert again.compute - once.compute == pytest.approx(96 * layer_work(GPT3, layout, A100, OLD).attention)
    flash = replace(PLAN, recompute="selective")
    assert seconds(layout=flash) == seconds()
    assert hardware_flops(LLAMA, flash) == model_flops(LLAMA, flash)


@pytest.mark.parametrize(("slower", "faster"), [
    ({"overlap": False, "zero": 0}, {"zero": 0}),  # gradients reduced after the backward
    ({"recompute": "full"}, {}),
    ({"offload": ("optimizer",)}, {}),
    ({"schedule": "gpipe"}, {"schedule": "zb-h1"}),
    ({"schedule": "zb-h1"}, {"schedule": "zb-h2"}),
    ({"zero": 3}, {"zero": 1}),
    ({"tp": 16, "dp": 1}, {"tp": 8, "dp": 2}),  # across nodes
])  # fmt: skip
def test_what_costs(slower, faster):
    assert seconds(layout=replace(PLAN, **slower)) > seconds(layout=replace(PLAN, **faster))


def test_a_slower_network_costs_time_only_in_communication():
    slow = hardware_of(CHIPS["h100"], find_machine("dgx-h100,nic=5"))
    here, there = (step_time(LLAMA, replace(PLAN, zero=0), hardware, NEW) for hardware in (H100, slow))
    assert there.compute == here.compute
    assert there.dp > here.dp
    assert there.p2p > here.p2p
    assert there.tp == here.tp  # inside a node


def test_interleaving_hides_messages_where_the_software_does():
    layout = Layout(pp=8, tp=8, vpp=4, schedule="interleaved", global_batch=64)
    waits, hides = (step_time(GPT3, layout, A100, replace(OLD, hides_p2p=hides)) for hides in (False, True))
    assert waits.p2p == pytest.approx(2 * 4 * 64 * hides.p2p_s)
    assert hides.p2p < waits.p2p / 2


def test_eight_bits_help_products_only():
    half = replace(PLAN, precision=find_precision("fp8"))
    gain = seconds() / seconds(layout=half)
    assert 1.2 < gain < 2


def test_gradients_and_parameters_over_data_parallel_ranks():
    plain = Layout(dp=16, tp=8, zero=0, overlap=False, global_batch=16)
    held = on_stage(LLAMA, plain, 0).total
    both = links.all_reduce(H100, 2 * held, 16, 8)
    assert step_time(LLAMA, plain, H100, NEW).dp == pytest.approx(both)
    halves = 2 * links.all_gather(H100, 2 * held, 16, 8)
    assert step_time(LLAMA, replace(plain, zero=1), H100, NEW).dp == pytest.approx(halves)
    hidden = step_time(LLAMA, replace(plain, overlap=True), H100, NEW)
    assert hidden.dp == pytest.approx(links.exposed(both, hidden.heaviest.compute[1], H100.share))


def test_zero_3_gathers_twice_and_scatters_once_a_microbatch():
    layout = Layout(dp=8, zero=3, microbatch=8, global_batch=128)
    once = links.all_gather(H100, 2 * on_stage(LLAMA, layout, 0).total, 8) + 79 * links.latency(H100, 8, 1)
    ahead, waits = (replace(NEW, prefetches=prefetches) for prefetches in (True, False))
    hidden, waiting = (step_time(LLAMA, layout, H100, software).dp / 2 for software in (ahead, waits))
    assert hidden == pytest.approx(H100.share * 3 * once)
    assert waiting == pytest.approx(H100.share * once + 2 * once)


def test_experts_compute_less_than_they_hold():
    mixture = MODELS["mixtral-8x7b"]
    step = step_time(mixture, Layout(dp=8, ep=8, etp=1, zero=1, global_batch=64), H100, NEW)
    dense = replace(mixture, experts=0, top_k=0, expert_ffn=0, ffn=2 * mixture.ffn)  # as wide as the two that are used
    same = step_time(dense, Layout(dp=8, zero=1, global_batch=64), H100, NEW)
    assert step.ep > 0 == same.ep
    assert same.compute < step.compute < 1.5 * same.compute


def test_update_bytes():
    # 16-bit gradients to fp32, norm, clipping, Adam reads them; master copy and two moments; new parameters
    assert find_precision("bf16").update_bytes == 6 + 4 + 8 + 4 + 24 + 2
    assert find_precision("fp16").update_bytes == find_precision("bf16").update_bytes + 8
    assert find_precision("bf16", fp32_gradients=True).update_bytes == find_precision("bf16").update_bytes - 6


def test_the_published_times_of_a_layer():
    # Korthikanti et al. 2022, table 4: 22B, TP 8, 4 samples on A100: forward 7.7 ms, backward 11.9 ms
    layout = Layout(tp=8, microbatch=4, flash=False, precision=find_precision("fp16"))
    work = layer_work(MODELS["megatron-22b"], layout, A100, OLD)
    assert work.forward + work.tp == pytest.approx(7.7e-3, rel=0.05)
    assert work.input + work.weight + work.tp_back == pytest.approx(11.9e-3, rel=0.06)


@pytest.mark.parametrize("schedule", ["naive", "gpipe", "1f1b", "zb-h1", "zb-h2", "zbv", "interleaved", "looped"])
@pytest.mark.parametrize(("model", "hardware", "software"), [(GPT3, A100, OLD), (LLAMA, H100, NEW)])
def test_the_same_plan_as_events(schedule, model, hardware, software):
    for pp, tp, recompute in itertools.product((1, 2, 8), (1, 8), ("none", "full")):
        if pp == 1 and schedule not in ("gpipe", "1f1b"):
            continue
        vpp = 2 if schedule in ("interleaved", "looped") else 1
        layout = Layout(
            dp=4, pp=pp, tp=tp, sp=tp > 1, vpp=vpp, schedule=schedule, global_batch=4 * 4 * pp, recompute=recompute
        )
        step = step_time(model, layout, hardware, software)
        assert step.time_s == pytest.approx(simulated_s(step, layout), rel=0.03), (pp, tp, recompute)


@pytest.mark.parametrize("schedule", ["1f1b", "interleaved", "zb-h1", "zbv", "v-min"])
@pytest.mark.parametrize("zero", [0, 1, 3])
def test_arrays_equal_numbers(schedule, zero):
    axes = [
        (tp, pp, cp, mb)
        for tp, pp, cp, mb in itertools.product((1, 2, 8, 16), (1, 2, 8, 24), (1, 4), (1, 2, 4))
        if 1024 % (tp * pp * cp) == 0 or pp == 24
    ]
    tp, pp, cp, mb = np.array(axes).T
    dp = np.maximum(1, 768 // (tp * pp * cp))
    vpp = 2 if schedule == "interleaved" else 1
    plans = Layout(
        dp=dp, pp=pp, tp=tp, cp=cp, microbatch=mb, global_batch=dp * mb * 48, schedule=schedule, zero=zero, sp=True,
        vpp=np.full_like(tp, vpp) if vpp > 1 else 1,
    )  # fmt: skip
    work = layer_work(GPT3, plans, A100, OLD)
    order = np.arange(len(tp))[::-1]
    found = step_time(GPT3, plans, A100, OLD, work.take(order).take(order))
    for i, (a, b, c, d) in enumerate(axes):
        alone = Layout(
            dp=int(dp[i]), pp=b, tp=a, cp=c, microbatch=d, global_batch=int(dp[i]) * d * 48, schedule=schedule,
            zero=zero, sp=True, vpp=vpp,
        )  # fmt: skip
        one = step_time(GPT3, alone, A100, OLD)
        for name, value in one.breakdown.items():
            assert np.broadcast_to(found.breakdown[name], len(axes))[i] == pytest.approx(value, rel=1e-12, abs=1e-15)


def test_the_record_shows_bytes_over_time():
    step = step_time(LLAMA, PLAN, H100, NEW)
    record = replay(LLAMA, PLAN, step)
    assert record.memory[0].unit == "bytes"
    assert max(record.memory[0].values) > max(record.memory[3].values)  # the first stage of 1F1B holds most
    assert max(span.end for span in record.spans) == pytest.approx(step.time_s - step.after_s, rel=0.03)


def test_software_by_chip_and_by_name():
    assert [software_of("", chip).name for chip in ("a100", "h100", "gb300")] == ["2022", "2024", "2025"]
    with pytest.raises(ValueError, match="software '2020' is unknown: use 20"):
        software_of("2020")
    own = calibrated(NEW, "matmul=0.5,attention=0.3")
    assert (own.matmul, own.attention, error_of(own, False)) == (0.5, 0.3, None)
    for said, told in (("speed=2", "constant 'speed' is unknown"), ("matmul=2", "use a number from 0.01 to 1")):
        with pytest.raises(ValueError, match=told):
            calibrated(NEW, said)


def test_a_v_shaped_schedule_has_both_ends_on_its_first_stage():
    for schedule in VEE:
        layout = Layout(pp=4, tp=8, schedule=schedule, global_batch=32)
        assert step_time(LLAMA, layout, H100, NEW).heaviest.slot > step_time(LLAMA, layout, H100, NEW).others.slot
