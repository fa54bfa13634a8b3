"""What one types: ``plan``, ``run``, ``compare``, and ``--what-if``."""

from __future__ import annotations

import json

import pytest

from parallel.strategies import STRATEGIES
from sim.__main__ import DOOR
from sim.commands.compare import layout_of_strategy
from sim.planner import admission
from sim.planner.constraints import check
from sim.planner.models import MODELS
from sim.planner.parameters import total

SMALL = ["plan", "--model", "llama3-8b", "--gpus", "16", "--gpu", "h100", "--global-batch", "32"]


def run(capsys: pytest.CaptureFixture[str], *told: str) -> tuple[int, str, str]:
    status = DOOR.main(list(told))
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def numbers(capsys: pytest.CaptureFixture[str], *told: str) -> dict:
    status, out, err = run(capsys, *told, "--json")
    assert (status, err) == (0, "")
    return json.loads(out)


def test_plan_json(capsys):
    found = numbers(capsys, *SMALL)
    assert found["evaluated"] > 10_000
    assert found["fit"] + found["rejected"][-1]["plans"] == found["evaluated"]
    assert found["rejected"][-1]["constraint"] == "memory"
    assert len(found["plans"]) == found["simulated"] == 200
    times = [plan["time_s"] for plan in found["plans"]]
    assert times == sorted(times)
    assert found["agreement"] < 0.03
    assert (found["error"]["mape"], found["error"]["n"], found["error"]["how"]) == (3.7, 8, "unseen")
    assert found["seconds"] > 0
    assert found["simulated_s"] > 0
    for plan in found["plans"]:
        assert plan["dp"] * plan["pp"] * plan["tp"] * plan["cp"] == 16 == plan["gpus"]
        assert plan["memory"] <= found["limit"]
        assert plan["error_percent"] == 3.7
    assert set(found["space"]) >= {"tp", "pp", "cp", "ep", "microbatch", "schedule", "recompute", "zero", "offload"}
    assert found["space"]["zero"] == [0, 1, 2, 3]


def test_a_plan_is_a_step(capsys):
    best = numbers(capsys, *SMALL)["plans"][0]
    told = [f"--{name}={best[name]}" for name in ("dp", "pp", "tp", "cp", "vpp", "zero", "microbatch", "recompute")]
    told += (
        ["--sp"] * best["sp"] + ["--schedule", best["schedule"]] + ["--offload", ",".join(best["offload"]) or "none"]
    )
    told += ["--no-overlap"] * (not best["overlap"])
    step = numbers(capsys, "step", "--model", "llama3-8b", "--gpu", "h100", "--global-batch", "32", *told)
    assert step["time_s"] == pytest.approx(best["time_s"])
    assert step["mfu"] == pytest.approx(best["mfu"])
    assert step["memory"]["per_gpu"] == pytest.approx(best["memory"], abs=1)


def test_the_pareto_list_has_fewer_gpus_too(capsys):
    rows = numbers(capsys, *SMALL)["pareto"]
    assert {row["gpus"] for row in rows} >= {16, 8}
    for one in rows:
        better = [
            row for row in rows
            if row is not one and row["time_s"] <= one["time_s"] and row["memory"] <= one["memory"]
            and row["gpus"] <= one["gpus"]
        ]  # fmt: skip
        assert not better


def test_plan_says_why(capsys):
    status, out, _ = run(capsys, "plan", "--model", "llama3-70b", "--gpus", "64", "--gpu", "h100", "--schedule", "1f1b")
    assert status == 0
    assert "16 bytes a parameter, 1,129 GB: 13.5 times what a GPU has" in out
    assert "8 nodes, fast links (47 GB/s a GPU, NVLink 366): ZeRO, or PP + TP + DP." in out
    assert "TP 16 crosses nodes: +" in out
    assert "does not fit: needs 1,149 GB" in out  # DDP
    assert "± 3.7 %: mean error of 8 measured steps" in out
    assert "schedule   1f1b" in out


@pytest.mark.parametrize(("told", "sentence"), [
    ("--model gpt2 --gpus 1 --gpu h100", "One GPU: it fits, so train it as it is."),
    ("--model llama3-8b --gpus 1 --gpu a100-40g", "One GPU: it does not fit, so ZeRO-Offload."),
    ("--model gpt2 --gpus 8 --gpu h100", "One node: it fits on one GPU, so DDP or ZeRO."),
    ("--model llama3-8b --gpus 8 --gpu h100", "One node: it does not fit on one GPU, so ZeRO, PP or TP."),
    ("--layers 2 --hidden 40960 --heads 320 --sequence 2048 --gpus 16 --machine gb200-nvl72 --memory 100G",
     "One node: not even a layer fits, so TP or ZeRO."),
    ("--model llama3-8b --gpus 16 --machine dgx-h100,nic=5", "slow links (5 GB/s a GPU, NVLink 366): DP + TP + PP"),
])  # fmt: skip
def test_the_decision_table(capsys, told, sentence):
    status, out, err = run(capsys, "plan", *told.split(), "--global-batch", "64")
    assert (status, err) == (0, "")
    assert sentence in out


def test_slow_links_cost_plans_that_cross_nodes(capsys):
    def cost(machine: str) -> float:
        told = ["plan", "--model", "llama3-8b", "--gpus", "16", "--machine", machine, "--global-batch", "64"]
        rows = numbers(capsys, *told, "--schedule", "1f1b")["others"]
        return next(row for row in rows if row["axis"] == "tp" and row["value"] == 16)["time_s"]

    assert cost("dgx-h100,nic=5") > 2 * cost("dgx-h100")


@pytest.mark.parametrize(("told", "sentence"), [
    ("plan --model llama3-70b --gpu h100", "a plan needs to know how many GPUs: add --gpus 64"),
    ("plan --model llama3-70b --gpus 64", "on which GPU? add --gpu h100"),
    ("plan --model lama3-70b --gpus 64 --gpu h100", "use llama3-70b"),
    ("plan --model llama3-70b --gpus 64 --gpu h100 --tp 3", "use --tp 4"),
    ("plan --model llama3-70b --gpus 64 --gpu h100 --tp 8 --pp 16", "use --gpus 128"),
    ("plan --model llama3-70b --gpus 64 --gpu h100 --dp 3", "use --dp 64"),
    ("plan --model llama3-70b --gpus 64 --gpu h100 --emit megatron --zero 3", "does not run --zero 3: use 0, 1"),
    ("plan --model llama3-70b --gpus 64 --gpu h100 --memory 900G", "h100 has 80G"),
    ("plan --model llama3-8b --gpus 64 --gpu h100 --ep 2", "llama3-8b has no experts: use --ep 1"),
    ("memory --model llama3-8b --gpus 8 --etp 2", "etp=2: llama3-8b has no experts: leave --etp out"),
    ("memory --model llama3-8b --loss slow", "--loss slow: use fused or eager"),
    ("params --model deepseek-v3 --layers 4 --dense-layers 5", "dense_layers=5: use 0 to layers=4"),
    ("flops --parameters 7B --experts 64", "leave --parameters out, or describe the shape with --layers"),
    ("plan --model llama3.1-405b --gpus 8 --gpu h100 --offload none", "use --gpus 128"),
    ("plan --model gpt2 --gpus 8 --gpu h100 --global-batch 32 --what-if size=2x", "size=2x: write NAME=VALUE"),
    ("run --model gpt2 --gpus 8 --gpu h100 --tokens 0", "--tokens 0: use a number from 1 on, like 15T"),
    ("run --model gpt2 --gpus 8 --gpu h100 --tokens 1T --mfu 3", "--mfu 3: use a share"),
    ("run --model gpt2 --gpus 8 --gpu h100 --tokens 1T --gpu-hour much", "--gpu-hour much: write a number like 2.5"),
    ("run --model llama3-8b --gpus 100000 --gpu h100 --tokens 15T --mtbf-gpu-hours 1 --mfu 0.4", "use fewer GPUs"),
    ("compare nowhere.json", "nowhere.json: cannot be read"),
])  # fmt: skip
def test_one_sentence_with_the_nearest_choice(capsys, told, sentence):
    status, out, err = run(capsys, *told.split())
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert len(err.splitlines()) == 1
    assert sentence in err


def test_experts_are_spread_over_a_stage(capsys):
    told = "plan --model mixtral-8x7b --gpus 16 --gpu h100 --global-batch 64 --schedule 1f1b --offload none --ep 8"
    found = numbers(capsys, *told.split())
    assert {plan["ep"] for plan in found["plans"]} == {8}
    status, _, err = run(capsys, *told.replace("--ep 8", "--ep 3").split())
    assert status == 2
    assert "among the 16 ranks of a stage" in err
    assert "use --ep 4" in err


def test_a_space_that_is_too_large_says_what_it_lost(capsys, monkeypatch):
    told = ["plan", "--model", "llama3-8b", "--gpus", "4", "--gpu", "h100", "--global-batch", "16"]
    assert numbers(capsys, *told)["narrowed"] == []
    monkeypatch.setattr(admission, "MOST", 5_000)
    found = numbers(capsys, *told)
    assert found["evaluated"] <= 5_000
    assert found["narrowed"] == ["offload", "overlap"]
    _, out, _ = run(capsys, *told)
    assert "not every value of offload, overlap was tried" in out


@pytest.mark.parametrize(("told", "flop"), [
    ("--parameters 100B --tokens 1T --gpus 1024 --gpu a100", "6.0e+23"),
    ("--model llama3.1-405b --tokens 15.6T --gpus 16384 --gpu h100", "3.8e+25"),
])  # fmt: skip
def test_run(capsys, told, flop):
    found = numbers(capsys, "run", *told.split(), "--mfu", "0.4")
    assert f"{found['flop']:.1e}" == flop
    assert found["flop"] == 6 * found["active_parameters"] * found["tokens"]
    peak = {"a100": 312e12, "h100": 989.4e12}[found["gpu"]]
    days = found["flop"] / (found["gpus"] * peak * 0.4) / 86400
    assert found["days_without_failures"] == pytest.approx(days)
    assert found["days"] == pytest.approx(days / found["goodput"])
    assert found["gpu_hours"] == pytest.approx(found["days"] * 24 * found["gpus"])
    assert found["price"] == pytest.approx(2.5 * found["gpu_hours"])


def test_intervals_that_failures_do_not_let_end_are_left_out(capsys):
    told = "run --model llama3-8b --gpus 4096 --gpu h100 --tokens 1T --mfu 0.4 --mtbf-gpu-hours 500 --restart 60s"
    found = numbers(capsys, *told.split(), "--checkpoint-bandwidth", "2", "--interval", "1500s")
    trials = found["checkpoint"]["trials"]
    assert 0 < len(trials) < 5
    assert trials[0]["closed"] > 0.1
    assert trials[0]["simulated"] == pytest.approx(trials[0]["closed"], rel=0.1)


def test_the_best_interval_is_best_as_events_too(capsys):
    told = "run --model llama3.1-405b --gpus 16384 --gpu h100 --tokens 15.6T --mfu 0.4 --checkpoint-bandwidth 200"
    saving = numbers(capsys, *told.split())["checkpoint"]
    shares = [row["simulated"] for row in saving["trials"]]
    assert max(shares) == shares[2]  # of a quarter, half, once, twice and four times the interval
    for row in saving["trials"]:
        assert row["simulated"] == pytest.approx(row["closed"], rel=0.02)
    parameters = total(MODELS["llama3.1-405b"])
    assert saving["write_s"] == pytest.approx(parameters * 14 / 200e9)
    assert saving["mtbf_s"] == pytest.approx(50_000 * 3600 / 16_384)


def test_run_with_a_split_is_the_step_of_that_split(capsys):
    split = ["--model", "llama3-8b", "--gpus", "16", "--tp=4", "--zero=1", "--global-batch", "64", "--gpu", "h100"]
    step, found = numbers(capsys, "step", *split), numbers(capsys, "run", *split, "--tokens", "1T")
    assert found["tokens_per_s"] == pytest.approx(step["tokens_per_s"])


def test_run_without_tokens_takes_the_optimal_number(capsys):
    found = numbers(capsys, "run", "--model", "llama3-8b", "--gpus", "8", "--gpu", "h100", "--mfu", "0.4")
    assert found["tokens"] == 20 * 8_030_261_248


def test_what_if_of_a_step(capsys):
    told = "step --model llama3-70b --gpus 64 --tp 8 --pp 4 --sp --zero 1 --global-batch 128 --gpu h100 --what-if"
    cases = "nic=2x|sequence=32k|gpus=128|tp=3"
    rows = {row["case"]: row for row in numbers(capsys, *told.split(), cases)["what_if"]}
    longer = "step --model llama3-70b --gpus 64 --tp 8 --pp 4 --sp --zero 1 --global-batch 128 --gpu h100"
    assert rows["as it is"]["time_s"] == pytest.approx(numbers(capsys, *longer.split())["time_s"])
    there = numbers(capsys, *longer.split(), "--sequence", "32768")
    assert rows["sequence=32k"]["time_s"] == pytest.approx(there["time_s"])
    faster = numbers(capsys, *longer.replace("--gpu h100", "--machine dgx-h100,nic=94").split())
    assert rows["nic=2x"]["time_s"] == pytest.approx(faster["time_s"])
    assert rows["gpus=128"]["gpus"] == 128
    assert "use --gpus 60" in rows["tp=3"]["error"]


def test_what_if_with_more_gpus_has_more_data_parallelism(capsys):
    told = "step --model llama3-8b --dp 2 --tp 4 --global-batch 64 --gpu h100 --what-if gpus=2x"
    row = numbers(capsys, *told.split())["what_if"][1]
    twice = numbers(capsys, *told.replace("--dp 2", "--dp 4").split()[:-2])
    assert row["gpus"] == 16
    assert row["time_s"] == pytest.approx(twice["time_s"])


def test_what_if_of_a_plan(capsys):
    rows = {row["case"]: row for row in numbers(capsys, *SMALL, "--what-if", "gpus=2x|flops=2x|memory=1G")["what_if"]}
    assert rows["gpus=2x"]["gpus"] == 32
    assert rows["gpus=2x"]["time_s"] < rows["as it is"]["time_s"]
    assert rows["flops=2x"]["time_s"] < rows["as it is"]["time_s"]
    assert "fits" in rows["memory=1G"]["error"]


def test_compare_with_a_measured_run(capsys, tmp_path):
    # `python -m parallel compare --model small --ranks 2`: what it counted, to the byte
    x = 842_496
    held = {"parameters": 4 * x, "gradients": 4 * x, "optimizer": 8 * x, "activations": 4_605_584}
    split = {**held, "gradients": 2 * x, "optimizer": 4 * x}
    rows = [
        {"strategy": "ddp", "precision": "fp32", "loss": 4.24, "step_s": 0.022, "bytes_sent": 4 * x, "memory": held},
        {"strategy": "zero-2", "precision": "fp32", "loss": 4.2, "step_s": 0.036, "bytes_sent": 4 * x, "memory": split},
        {"strategy": "zero-3", "precision": "fp32", "loss": 4.24, "step_s": 0.043, "bytes_sent": 6 * x,
         "memory": {**split, "parameters": 2 * x}},
        {"strategy": "dp", "precision": "fp32", "loss": 4.24, "step_s": 0.033, "bytes_sent": 7_003_136,
         "memory": {**held, "activations": None}},
        {"strategy": "ddp-int8", "precision": "int8", "loss": 4.24, "step_s": 0.04, "bytes_sent": 868_824,
         "memory": {**held, "gradients": 10 * x}},
        {"strategy": "mine", "precision": "fp32", "loss": 4.24, "step_s": 0.04, "bytes_sent": 1, "memory": held},
    ]  # fmt: skip
    file = tmp_path / "rows.json"
    file.write_text(json.dumps({"environment": {"model": "small", "ranks": 2, "batch": 4, "length": 64}, "rows": rows}))
    found = numbers(capsys, "compare", str(file))["rows"]
    for row in found[:5]:
        assert row["predicted_bytes_sent"] == pytest.approx(row["bytes_sent"], abs=1)
        assert row["predicted_memory"] == row["memory"]
    assert found[5]["left_out"] == "mine is no strategy of parallel"
    status, out, _ = run(capsys, "compare", str(file), "--gpu", "h100")
    assert status == 0
    assert "3,369,984 / 3,369,984" in out
    timed = numbers(capsys, "compare", str(file), "--gpu", "h100")["rows"]
    assert [row["strategy"] for row in timed if row.get("predicted_step_s") is None] == ["dp", "mine"]


def test_every_strategy_of_parallel_is_compared():
    for strategy in STRATEGIES.values():
        layout = layout_of_strategy(strategy, 4, 8)
        if strategy.name == "dp":
            assert layout is None
            continue
        assert layout.gpus == (1 if strategy.name == "single" else 4)
        assert layout.samples == 8
        check(MODELS["gpt2"], layout)
    of = {name: layout_of_strategy(strategy, 4, 8) for name, strategy in STRATEGIES.items()}
    assert [of[name].zero for name in ("ddp", "zero-1", "zero-2", "zero-3", "zero-3-kept")] == [0, 1, 2, 3, 2]
    assert [of[name].wire for name in ("ddp", "ddp-fp16", "ddp-int8")] == ["", "fp16", "int8"]
    assert (of["recompute"].recompute, of["offload-activations"].offload) == ("full", ("activations",))
    assert of["zero-offload"].offload == of["offload-states"].offload == ("optimizer",)
    assert of["adam-8bit"].precision.state.optimizer < 3 < of["bf16"].precision.state.optimizer


def test_compare_with_a_training_run(capsys, tmp_path):
    file = tmp_path / "train.json"
    steps = [{"step_s": 9.0}, {"step_s": 2.0}, {"step_s": 2.2}, {"step_s": 2.1}]
    file.write_text(json.dumps({"steps": steps}))
    split = ["--model", "llama3-8b", "--gpus", "8", "--zero", "3", "--microbatch", "2", "--gpu", "h100"]
    found = numbers(capsys, "compare", str(file), *split)
    assert found["measured_s"] == 2.1  # the median without the first
    assert found["predicted_s"] == pytest.approx(numbers(capsys, "step", *split)["time_s"])


def test_a_training_run_says_its_own_split(capsys, tmp_path):
    file = tmp_path / "train.json"
    environment = {"model": "small", "ranks": 4, "dp": 2, "tp": 2, "batch": 8, "length": 64}
    file.write_text(json.dumps({"environment": environment, "steps": [{"step_s": 0.5}, {"step_s": 0.25}]}))
    found = numbers(capsys, "compare", str(file))
    assert found["plan"] == "DP 2 × TP 2 = 4 GPUs"
    assert (found["measured_s"], found["predicted_s"]) == (0.25, None)
    assert numbers(capsys, "compare", str(file), "--gpu", "a100")["predicted_s"] > 0


@pytest.mark.parametrize(("split", "held"), [  # what `python -m parallel train --model tiny …` counted, to the byte
    ({"dp": 2}, (142_848, 142_848, 285_696)),
    ({"dp": 2, "precision": "bf16"}, (71_424, 142_848, 428_544)),
    ({"dp": 2, "zero": 1}, (142_848, 71_424, 142_848)),
    ({"tp": 2}, (76_416, 76_416, 152_832)),
    ({"dp": 2, "pp": 2, "tp": 2, "zero": 1}, (50_368, 25_184, 50_368)),
    ({"pp": 2, "tp": 2, "precision": "fp16"}, (25_184, 50_368, 151_104)),
    ({"dp": 4, "zero": 3, "precision": "bf16"}, (17_856, 35_712, 107_136)),
    ({"model": "llama-tiny", "pp": 2, "tp": 2, "sp": True}, (39_808, 39_808, 79_616)),
])  # fmt: skip
def test_a_training_run_holds_what_is_predicted(capsys, tmp_path, split, held):
    kinds = ("parameters", "gradients", "optimizer")
    environment = {"model": "tiny", "dp": 1, "pp": 1, "tp": 1, "precision": "fp32", "batch": 8, "length": 64, **split}
    environment["ranks"] = environment["dp"] * environment["pp"] * environment["tp"]
    file = tmp_path / "train.json"
    measured = {**dict(zip(kinds, held, strict=True)), "other": 112}
    file.write_text(json.dumps({"environment": environment, "steps": [{"step_s": 0.5}], "memory": measured}))
    assert numbers(capsys, "compare", str(file))["predicted_memory"] == dict(zip(kinds, held, strict=True))


@pytest.mark.parametrize(("text", "sentence"), [
    ("{", "line 1: is no JSON"),
    ("{}", "has neither rows nor steps"),
    ('{"rows": [{"strategy": "ddp"}]}', "rows[0] has no step_s"),
    ('{"rows": [{"strategy": "ddp", "step_s": 1}], "environment": {"model": "odd"}}', "the file's model is 'odd'"),
])  # fmt: skip
def test_compare_refuses_other_files(capsys, tmp_path, text, sentence):
    file = tmp_path / "file.json"
    file.write_text(text)
    status, _, err = run(capsys, "compare", str(file))
    assert status == 2
    assert sentence in err
