"""What one types: ``params``, ``memory``, ``flops``, ``inference``, ``step``, ``validate training``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from sim.__main__ import DOOR


def run(capsys: pytest.CaptureFixture[str], *told: str) -> tuple[int, str, str]:
    status = DOOR.main(list(told))
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def words(text: str) -> list[str]:
    return text.split()


def numbers(capsys: pytest.CaptureFixture[str], *told: str) -> dict:
    status, out, err = run(capsys, *told, "--json")
    assert (status, err) == (0, "")
    return json.loads(out)


def test_params(capsys):
    found = numbers(capsys, "params", "--model", "gpt3-175b", "--dp", "8", "--tp", "8", "--pp", "16")
    assert found["total"] == 174_604_259_328
    assert found["per_gpu"] == max(found["stages"]) == found["stages"][0]
    assert round(found["formula"]["parameters"] / 1e9, 4) == 1.4393
    assert [round(found["formula"]["bytes"][str(zero)] / 1e9, 2) for zero in range(4)] == [23.03, 7.92, 5.40, 2.88]
    status, out, _ = run(capsys, "params", "--model", "gpt3-175b", "--dp", "8", "--tp", "8", "--pp", "16")
    assert status == 0
    assert "174,604,259,328" in out
    assert "23.03     7.92     5.40     2.88" in out


def test_params_by_numbers_and_by_name_are_the_same(capsys):
    shape = words("--layers 32 --hidden 4096 --heads 32 --kv-heads 8 --ffn 14336 --vocab 128256")
    assert numbers(capsys, "params", *shape)["total"] == 8_030_261_248
    small = words("--layers 12 --hidden 768 --heads 12 --sequence 1024")
    assert numbers(capsys, "params", *small)["total"] == 124_439_808
    mixture = words("--layers 32 --hidden 4096 --heads 32 --kv-heads 8 --ffn 14336 --vocab 32000 --experts 8")
    assert numbers(capsys, "params", *mixture)["total"] == 46_702_792_704
    assert numbers(capsys, "params", "--parameters", "100B")["total"] == 10**11


def test_params_with_zero_3_are_shared_out(capsys):
    found = numbers(capsys, "params", "--model", "gpt2", "--gpus", "8", "--zero", "3")
    assert found["per_gpu"] == 124_439_808 // 8


def test_memory(capsys):
    told = words("memory --model llama3-70b --gpus 64 --tp 8 --pp 4 --sp --zero 1 --gpu h100")
    found = numbers(capsys, *told)
    assert len(found["stages"]) == 4
    assert found["per_gpu"] == found["stages"][found["fullest_stage"]]
    kinds = ("parameters", "gradients", "optimizer", "activations", "logits", "working", "buffers", "fragmentation")
    for stage in found["stages"]:
        assert sum(stage[kind] for kind in kinds) == pytest.approx(stage["total"], abs=8)
    assert found["fits"] is True
    assert found["capacity"] == 80 << 30
    _, out, _ = run(capsys, *told)
    assert "fits" in out
    assert "NCCL's own buffers" in out
    assert all(len(line) <= 80 for line in out.splitlines()[3:])


def test_memory_of_a_model_that_does_not_fit(capsys):
    assert numbers(capsys, "memory", "--model", "llama3-70b", "--gpu", "h100")["fits"] is False
    assert "does not fit" in run(capsys, "memory", "--model", "llama3-70b", "--machine", "dgx-h100")[1]


def test_the_picture(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    told = words("memory --model gpt3-175b --gpus 64 --tp 8 --pp 8 --sp --gpu a100")
    _, out, _ = run(capsys, *told, "--picture")
    rows = [line for line in out.splitlines() if line.startswith("stage ")]
    assert len(rows) == 8
    stages = numbers(capsys, *told)["stages"]
    end = max(80 << 30, *(stage["total"] for stage in stages))
    letters = {"P": "parameters", "G": "gradients", "O": "optimizer", "A": "activations"}
    for row, stage in zip(rows, stages, strict=True):  # 63 columns: 80 without the name and the total
        for letter, kind in letters.items():
            assert row.count(letter) == pytest.approx(stage[kind] / end * 63, abs=1)
    assert "\x1b" not in out
    path = tmp_path / "bars.svg"
    run(capsys, *told, "--picture", str(path))
    titles = [e.text for e in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}title")]
    assert f"stage 3: optimizer {stages[3]['optimizer'] / 1e9:.2f} GB" in titles


def test_flops(capsys):
    found = numbers(capsys, "flops", "--model", "gpt2")
    assert found["forward_total"] == 291_648_307_200 == sum(found["forward"].values())
    assert found["total"] == 874_944_921_600
    assert found["six_nd"] == 6 * 124_439_808 * 1024
    assert found["not_counted"]["embeddings"] == 2 * 1024 * 50257 * 768
    assert numbers(capsys, "flops", "--parameters", "100B", "--tokens", "1T")["six_nd"] == 6 * 10**23
    hardware = numbers(capsys, "flops", *words("--model megatron-1.7b --global-batch 512 --recompute full"))
    # Narayanan et al. 2021: 137 teraFLOP/s on each of 32 GPUs make an iteration of 3.53 s
    assert hardware["hardware_total"] / (32 * 137e12) == pytest.approx(3.53, abs=0.005)


def test_inference(capsys):
    found = numbers(capsys, "inference", *words("--model llama2-7b --gpu a100-80g --batch 2 --answer 10"))
    assert found["kv_bytes_per_token"] == 512 << 10
    assert found["per_gpu"]["weights"] == 2 * 6_738_415_616
    assert found["per_gpu"]["kv_cache"] == 2 * 1034 * (512 << 10)
    assert found["two_n"] == 2 * 6_738_415_616
    assert found["latency_s"] == pytest.approx(found["prefill"]["time_s"] + 10 * found["decode"]["time_s"])
    eight = numbers(capsys, "inference", *words("--model llama3-70b --gpu h100 --tp 8"))
    four = numbers(capsys, "inference", *words("--model llama3-70b --gpu h100 --tp 4"))
    assert four["decode"]["time_s"] / 2 < eight["decode"]["time_s"] < four["decode"]["time_s"]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("params --model gtp2", "model 'gtp2' is unknown: use gpt2"),
        ("params --tp five", "--tp 'five': write a whole number like"),
        ("params --tp -1", "--tp '-1': write a whole number like"),
        ("params --layers 4", "add --hidden"),
        ("params --gpus 60 --tp 4 --pp 4", "gpus=60 is not a multiple of PP 4 × CP 1 × TP 4 = 16: use --gpus 64"),
        ("params --dp 0", "dp=0: use a number from 1 on"),
        ("params --gpus 0", "gpus=0: use a number from 1 on"),
        ("params --gpus 2.5", "--gpus '2.5': write a whole number"),
        ("params --parameters 3", "parameters=3: use 1M to 1e18"),
        ("params --dp 1e23", "dp=100000000000000000000000: use a number from 1 to 2**40"),
        ("memory --gpu z100", "gpu 'z100' is unknown: use v100"),
        ("memory --machine laptop", "--machine laptop does not say which GPUs it has"),
        ("memory --recompute all", "--recompute all: use none, selective, full"),
        ("memory --sp 8", "--sp 8: use on or off"),
        ("memory --flash no", "--flash no: use on or off"),
        ("memory --offload ssd", "--offload ssd: use optimizer, parameters, activations"),
        ("memory --precision fp7", "precision 'fp7' is unknown: use fp8"),
        ("memory --optimizer adamw", "optimizer 'adamw' is unknown: use adam"),
        ("memory --picture bars.gif", "--picture bars.gif: use a name that ends in .svg or .png"),
        ("memory --fragmentation 2", "--fragmentation 2: write a share from 0 to 1"),
        ("memory --fragmentation nan", "--fragmentation nan: write a share from 0 to 1"),
        ("flops --batch 2 --tokens 4", "leave one out"),
        ("flops --attention half", "--attention half: use full, causal"),
        ("flops --tokens 0", "--tokens 0: use a number from 1 on"),
        ("inference --model bert-base", "bert-base is an encoder"),
        ("inference --weights int3", "--weights int3: use fp32"),
        ("inference --batch 0", "--batch 0: use a number from 1"),
        ("inference --gpu v100 --weights fp8", "v100 does not compute in fp8: use fp32, fp16"),
        ("inference --gpus 4 --tp 2", "gpus=4 is not TP 2 × PP 1 = 2: use --gpus 2"),
    ],
)
def test_mistakes_are_one_sentence(capsys, line, sentence):
    status, out, err = run(capsys, *words(line))
    assert status == 2
    assert out == ""
    assert sentence in err
    assert len(err.splitlines()) == 1


def test_json_to_a_file(capsys, tmp_path):
    path = tmp_path / "found.json"
    status, out, _ = run(capsys, "flops", "--json", str(path))
    assert status == 0
    assert "forward" in out
    assert json.loads(path.read_text())["model"] == "gpt2"
    assert run(capsys, "flops", "--json", str(tmp_path / "no" / "x.json"))[0] == 2


def test_a_terminal_without_unicode():
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "sim", *words("params --model gpt2 --pp 2 --tp 2")]
    found = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    assert "PP 2 x TP 2 = 4 GPUs" in found


def test_a_hundred_thousand_gpus(capsys):
    found = numbers(capsys, *words("memory --model gpt3-175b --gpus 98304 --tp 8 --pp 96 --zero 1"))
    assert len(found["stages"]) == 96
    assert numbers(capsys, "params", "--model", "gpt2", "--dp", "1T", "--zero", "1")["gpus"] == 10**12


@pytest.mark.parametrize("command", ["params", "memory", "flops", "inference", "step --gpu a100 --pp 2 --gpus 4"])
def test_light_imports(command):
    code = f"import sys; from sim.__main__ import DOOR; DOOR.main({command.split()}); "
    code += "assert not {'torch', 'numpy', 'networkx', 'rich', 'matplotlib'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


STEP = words("step --model llama3-70b --gpus 64 --tp 8 --pp 4 --sp --zero 1 --global-batch 128 --gpu h100")


def test_step(capsys):
    found = numbers(capsys, *STEP)
    assert sum(found["breakdown"].values()) == found["time_s"]
    assert found["tokens_per_s"] == pytest.approx(128 * 8192 / found["time_s"])
    flops = 3 * 128 * sum(
        2 * 8192 * 80 * (8192 * (8192 + 2 * 1024) + 8192 * 8192 + 3 * 8192 * 28672) * (i == 0)
        + 4 * 8192**2 * 80 * 8192 * (i == 1)
        + 2 * 8192 * 8192 * 128256 * (i == 2)
        for i in range(3)
    )  # fmt: skip
    assert found["mfu"] == pytest.approx(flops / found["time_s"] / 64 / 989.4e12)
    assert found["hfu"] == found["mfu"]
    assert found["simulated_s"] == pytest.approx(found["time_s"], rel=0.03)
    assert found["memory"]["per_gpu"] == numbers(capsys, "memory", *STEP[1:])["per_gpu"]["total"]
    status, out, _ = run(capsys, *STEP)
    assert status == 0
    assert f"± {found['error']['mape']:g} %: mean error of {found['error']['n']} measured steps" in out
    assert "event by event" in out


def test_step_with_own_constants_and_pictures(capsys, tmp_path):
    slow = numbers(capsys, *STEP, "--calibrate", "matmul=0.35")
    assert slow["time_s"] > 1.5 * numbers(capsys, *STEP)["time_s"]
    assert slow["error"] is None
    status, out, _ = run(capsys, *STEP, "--picture")
    assert (status, "rank" in out or "stage 0" in out, "F forward" in out) == (0, True, True)
    svg, trace = tmp_path / "step.svg", tmp_path / "step.json"
    assert run(capsys, *STEP, "--picture", str(svg))[0] == 0
    assert ElementTree.parse(svg).getroot().tag.endswith("svg")
    assert run(capsys, *STEP, "--picture", str(trace))[0] == 0
    assert json.loads(trace.read_text())["traceEvents"]


def test_a_step_on_very_many_gpus_answers(capsys):
    told = words("step --model deepseek-v3 --gpus 100352 --ep 64 --pp 16 --gpu gb300 --precision fp8")
    assert numbers(capsys, *told, "--global-batch", "100352")["gpus"] == 100352


@pytest.mark.parametrize(("told", "message"), [
    ("step --model gpt2", "on which GPU? add --gpu h100, or --machine dgx-h100"),
    ("step --model gpt2 --machine laptop --gpu h100", "laptop is no cluster of GPUs"),
    ("step --model gpt2 --gpu a100 --software 1999", "software '1999' is unknown"),
    ("step --model gpt2 --gpu a100 --calibrate matmul=9", "matmul=9: use a number from 0.01 to 1"),
    ("step --model gpt2 --gpu a100 --picture step.gif", "--picture step.gif: use a name that ends in .svg"),
    ("step --model gpt2 --gpu a100 --precision fp8", "a100 does not compute in fp8"),
    ("validate training nowhere.csv", "nowhere.csv: cannot be read"),
    ("validate training --leave-one-out speed", "--leave-one-out speed: use matmul, attention"),
    ("validate collectives", "validate collectives needs a file"),
])  # fmt: skip
def test_what_step_and_validate_refuse(capsys, told, message):
    status, out, err = run(capsys, *words(told))
    assert (status, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_validate_training(capsys, tmp_path):
    found = numbers(capsys, "validate", "training")
    assert [one["n"] for one in found["sets"]] == [6, 4, 14, 19]
    assert len(found["rows"]) == 43
    for one in found["sets"]:
        rows = [row for row in found["rows"] if row["source"] == one["name"]]
        sizes = sorted(100 * abs(row["predicted_s"] / row["measured_s"] - 1) for row in rows)
        assert one["mape"] == pytest.approx(sum(sizes) / len(sizes), abs=0.006)
    own = tmp_path / "own.csv"
    own.write_text(
        "source,model,seq,gpu,gpus,tp,microbatch,globalbatch,precision,iteration_s,iteration_is\n"
        "mine,llama3-8b,8192,h100,8,1,1,8,bf16,2.0,measured\n"
        "a tool,llama3-8b,8192,h100,8,1,1,8,bf16,1.0,simulated\n"
        "mine,llama9-8b,8192,h100,8,1,1,8,bf16,1.0,measured\n"
    )
    found = numbers(capsys, "validate", "training", str(own))
    assert [(one["name"], one["kind"]) for one in found["sets"]] == [
        ("mine", "measured"), ("a tool", "agreement with a simulator"),
    ]  # fmt: skip
    assert found["left_out"][0]["reason"] == "no shape, and no model 'llama9-8b' is known"
    _, out, _ = run(capsys, "validate", "training", str(own))
    assert "simulated by others: agreement, and no accuracy" in out
    assert "not modelled" in out
