"""Predictions beside published steps, with the constants as they are frozen; and the reading of such tables."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources

import pytest

from sim.planner.accuracy import errors, fit, grouped, left_out, peak_errors, predict, rankings
from sim.planner.constants import SOFTWARE, software_of
from sim.planner.runs import read_runs
from sim.planner.step import step_time

HEADER = (
    "source,table,model,layers,hidden,heads,seq,vocab,gpu,gpus,tp,pp,dp,vpp,microbatch,globalbatch,recompute,"
    "sequence_parallel,precision,iteration_s,iteration_is,measured,notes\n"
)


@pytest.fixture(scope="module")
def table():
    runs, left = read_runs((resources.files("sim.planner") / "published_steps.csv").read_text(encoding="utf-8"))
    assert not left
    return runs


@pytest.fixture(scope="module")
def by_source(table):
    return grouped(predict(table), lambda run: run.source.split(" ")[0])


@pytest.mark.parametrize(("source", "n", "mape"), [
    ("Narayanan", 6, 4.0),  # unseen
    ("Korthikanti", 4, 3.5),  # unseen
    ("MosaicML", 14, 4.5),  # fitted
    ("NVIDIA", 19, 4.0),  # fitted
])  # fmt: skip
def test_published_steps_within_their_bounds(by_source, source, n, mape):
    found = errors(by_source[source])
    assert found.n == n
    assert found.mape <= mape
    assert abs(found.bias) <= 3


def test_megatron_by_hand():
    # Narayanan et al. 2021, table 1: 1T on 3,072 A100, TP 8, PP 64, batch 3,072, 163 TFLOP/s a GPU with recompute
    b, s, layers, h, v = 3072, 2048, 128, 25600, 51200
    flops = 96 * b * s * layers * h**2 * (1 + s / (6 * h) + v / (16 * layers * h))
    run, _ = read_runs(
        HEADER + "arXiv 2104.04473,,GPT 1T,128,25600,160,2048,51200,A100-80GB,3072,8,64,6,1,1,3072,full,no,fp16,"
        f"{flops / 3072 / 163e12},derived,,\n"
    )
    assert run[0].measured_s == pytest.approx(102.6, abs=0.1)
    assert run[0].layout.dp == 6
    assert abs(predict(run)[0].error) < 0.04


def test_hopper_from_the_constants_of_ampere(table):
    hopper = [run for run in table if run.source.startswith("NVIDIA") and run.layout.precision.name == "bf16"]
    predicted = predict(replace(run, software=software_of("2022")) for run in hopper)
    assert errors(predicted).mape <= 8


def test_each_model_left_out_of_its_fit(table):
    hopper = [run for run in table if run.source.startswith("NVIDIA") and run.layout.precision.name == "bf16"]
    found = left_out(hopper, ["matmul"])
    assert len(found) == 8
    assert errors(found).mape <= 3


def test_fit_finds_the_constants_that_made_the_times(table):
    made = replace(SOFTWARE["2022"], matmul=0.7, attention=0.4)
    runs = [
        replace(run, software=SOFTWARE["2022"], measured_s=step_time(run.model, run.layout, run.hardware, made).time_s)
        for run in table
        if run.source.startswith("MosaicML")
    ]
    found = fit(runs, ["matmul", "attention"])
    assert found["matmul"] == pytest.approx(0.7, abs=0.005)
    assert found["attention"] == pytest.approx(0.4, abs=0.02)


def test_a_model_that_is_left_out_has_no_say(table):
    def made(run, matmul: float):
        software = replace(SOFTWARE["2024"], matmul=matmul)
        return replace(run, measured_s=step_time(run.model, run.layout, run.hardware, software).time_s)

    hopper = [run for run in table if run.source.startswith("NVIDIA") and run.layout.precision.name == "bf16"]
    runs = [made(run, 0.5 if run.name == "Llama-3.1 8b" else 0.7) for run in hopper]
    found = {one.run.name: one for one in left_out(runs, ["matmul"])}
    assert found["Llama-3.1 8b"].run.software.matmul == pytest.approx(0.7, abs=0.004)
    assert found["Llama-3.1 8b"].error < -0.15


def row(**cells: str) -> str:
    said = {
        "source": "somebody", "model": "GPT", "layers": "24", "hidden": "2048", "heads": "16", "seq": "2048",
        "vocab": "51200", "gpu": "H100", "gpus": "16", "tp": "2", "pp": "2", "microbatch": "2", "globalbatch": "64",
        "precision": "bf16", "iteration_s": "1.0", "iteration_is": "measured", **cells,
    }  # fmt: skip
    return HEADER + ",".join(f'"{said.get(name, "")}"' for name in HEADER.strip().split(",")) + "\n"


def one(**cells: str):
    runs, left = read_runs(row(**cells))
    assert not left, left
    return runs[0]


def test_what_a_row_leaves_out():
    run = one(dp="", vpp="NA", notes="cp=2; ep=n/a")
    assert (run.layout.dp, run.layout.cp, run.layout.vpp) == (2, 2, 1)
    assert (run.layout.zero, run.layout.overlap, run.layout.flash, run.software.name) == (1, True, True, "2024")
    assert one(globalbatch="", notes="grad_accum=4").layout.global_batch == 4 * 4 * 2
    assert one(iteration_s="", measured="tokens/s/GPU=8192; x").measured_s == 64 * 2048 / 16 / 8192
    assert one(layers="", hidden="", heads="", model="LLAMA3_70B").model.ffn == 28672
    assert one(layers="", hidden="", heads="", model="DeepSeekV3 (w/o MTP)").model.experts == 256
    assert one(model="Llama-3.1 70b", hidden="8192", heads="64").model.kv_heads == 8
    assert one(vpp="5", layers="20").layout.schedule == "interleaved"
    assert one(precision="MXFP8").layout.precision.compute == "fp8"
    assert one(gpu="H100-96GB-HBM2e 500W (Grand Teton)").hardware.chip.name == "h100"
    assert one(gpu="DGX-GB300").software.name == "2025"
    assert one(iteration_is="simulated").simulated


def test_a_measured_peak_is_predicted():
    run = one(
        source="MooreThreads/SimuMax", model="llama3_405b", layers="4", hidden="", heads="", seq="4096", gpu="B200-SXM",
        gpus="8", tp="1", pp="2", microbatch="1", globalbatch="", notes="cp=1; mbc(microbatches)=8",
        measured="iteration_s=1.0; peak_alloc_GiB=87.08",
    )  # fmt: skip
    assert run.measured_peak == 87.08 * 2**30
    found = peak_errors(predict([run]))
    assert found.n == 1
    assert found.mape <= 5
    assert peak_errors(predict([one()])) is None


def test_what_the_plan_ranked_first_costs():
    def plan(tp: int, measured: float, model: str = "GPT"):
        return one(gpus="16", tp=str(tp), pp="1", iteration_s=str(measured), model=model)

    # by the formulas a smaller TP is faster
    right = [plan(tp, tp) for tp in (1, 2, 4, 8, 16)]
    assert [(one.plans, one.cost, one.ordered) for one in rankings(predict(right))] == [(5, 0.0, 100.0)]
    wrong = [plan(tp, 16 / tp) for tp in (1, 2, 4, 8, 16)]
    assert [(one.cost, one.ordered) for one in rankings(predict(wrong))] == [(1500.0, 0.0)]
    assert not rankings(predict([*right[:4], plan(16, 1.0, "another")]))
    assert not rankings(predict([plan(1, 1.0), plan(2, 2.0)] * 3))  # repeated, and no choice


def test_rules_by_source():
    assert one(source="VIA-Research/vTrain", gpu="A100", precision="").hardware.nic == pytest.approx(11.75e9)
    old = one(source="arXiv 2205.05198", gpu="a100").layout
    assert (old.zero, old.overlap, old.flash, old.precision.name) == (0, False, False, "bf16")
    foundry = one(source="mosaicml/llm-foundry", gpu="a100_40gb", tp="1", pp="1", precision="amp_bf16")
    assert (foundry.layout.zero, foundry.software.name, foundry.hardware.chip.name) == (3, "2023", "a100-40g")
    assert one(source="pytorch/torchtitan", microbatch="8", globalbatch="32").layout.microbatch == 1


@pytest.mark.parametrize(("cells", "reason"), [
    ({"gpu": "Tesla P40"}, "gpu 'Tesla P40' is not known"),
    ({"layers": "", "model": "AmoebaNet"}, "no shape, and no model 'AmoebaNet' is known"),
    ({"iteration_s": ""}, "no time of a step"),
    ({"iteration_s": "fast"}, "iteration_s 'fast' is no number that makes sense"),
    ({"iteration_s": "-1"}, "iteration_s '-1' is no number that makes sense"),
    ({"gpus": "10"}, "10 GPUs are not a multiple of TP 2 × PP 2 × CP 1"),
    ({"microbatch": "n/a"}, "no microbatch"),
    ({"precision": ""}, "no precision: 16 bits or 8?"),
    ({"precision": "NVFP4"}, "precision NVFP4 is not modelled"),
    ({"gpu": "A100", "precision": "fp8"}, "a100 does not compute in fp8"),
    ({"table": "finetune LoRA"}, "LoRA is not modelled"),
    ({"tp": "3", "gpus": "12", "globalbatch": "60"}, "tp=3 does not split GPT evenly"),
    ({"pp": "NA", "tp": ""}, "no tp"),
])  # fmt: skip
def test_rows_are_left_out_with_the_reason(cells, reason):
    runs, left = read_runs(row(**cells))
    assert not runs
    assert reason in left[0].reason
    assert left[0].line == 2


def test_what_is_no_table():
    with pytest.raises(ValueError, match="line 1: the columns source, gpu, gpus are missing"):
        read_runs("model,seq\nGPT,1\n")
    with pytest.raises(ValueError, match="there are no rows below the header"):
        read_runs(HEADER)


def test_a_cell_too_many_or_too_few():
    runs, left = read_runs(row() + "short,row\n" + row().splitlines()[1] + ",more,cells\n")
    assert (len(runs), len(left)) == (2, 1)
