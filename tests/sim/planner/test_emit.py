"""A plan in others' words: every flag is one that they have, and what they cannot run is refused."""

from __future__ import annotations

import json

import pytest

from sim.__main__ import DOOR
from sim.planner.emit import CAN, emit
from sim.planner.layout import Layout
from sim.planner.models import MODELS

LLAMA = MODELS["llama3-70b"]
PLAN = Layout(dp=2, pp=4, tp=8, vpp=5, sp=True, schedule="interleaved", microbatch=2, global_batch=128)


def flags(text: str) -> dict[str, str]:
    """Flag → value, or nothing."""
    words = [line.strip(" \\").partition(" ") for line in text.splitlines()]
    return {name: value for name, _, value in words}


def test_megatron():
    found = flags(emit("megatron", LLAMA, Layout(**{**vars(PLAN), "zero": 1, "recompute": "full"})))
    assert found["--tensor-model-parallel-size"] == "8"
    assert found["--pipeline-model-parallel-size"] == "4"
    assert found["--num-virtual-stages-per-pipeline-rank"] == "5"
    assert (found["--micro-batch-size"], found["--global-batch-size"]) == ("2", "128")
    assert (found["--num-layers"], found["--hidden-size"], found["--ffn-hidden-size"]) == ("80", "8192", "28672")
    assert found["--num-query-groups"] == "8"
    assert {"--sequence-parallel", "--swiglu", "--use-distributed-optimizer", "--overlap-param-gather"} <= set(found)
    assert (found["--recompute-granularity"], found["--recompute-num-layers"]) == ("full", "1")
    assert "--num-experts" not in found


def test_megatron_with_experts():
    found = flags(emit("megatron", MODELS["mixtral-8x7b"], Layout(dp=8, ep=8, etp=1, zero=1, global_batch=64)))
    assert (found["--num-experts"], found["--moe-router-topk"]) == ("8", "2")
    assert (found["--expert-model-parallel-size"], found["--expert-tensor-parallel-size"]) == ("8", "1")
    assert "--sequence-parallel" not in found


def test_torchtitan():
    found = flags(emit("torchtitan", LLAMA, Layout(**{**vars(PLAN), "zero": 2})))
    assert found["--parallelism.data_parallel_shard_degree"] == "2"
    assert found["--parallelism.data_parallel_replicate_degree"] == "1"
    assert found["--parallelism.fsdp_reshard_after_forward"] == "never"
    assert found["--parallelism.pipeline_parallel_schedule"] == "Interleaved1F1B"
    assert found["--parallelism.pipeline_parallel_microbatch_size"] == "2"
    assert found["--training.local_batch_size"] == "64"  # of a rank: 128 samples over DP 2, in 32 microbatches
    alone = flags(emit("torchtitan", LLAMA, Layout(dp=8, zero=3, microbatch=2, global_batch=64)))
    assert alone["--training.local_batch_size"] == "2"
    assert alone["--parallelism.fsdp_reshard_after_forward"] == "always"
    assert "--parallelism.pipeline_parallel_schedule" not in alone


def test_deepspeed():
    found = json.loads(emit("deepspeed", LLAMA, Layout(dp=8, zero=3, microbatch=2, global_batch=64,
                                                       offload=("optimizer", "parameters"))))  # fmt: skip
    assert found["train_batch_size"] == 64 == 2 * 4 * 8
    assert (found["train_micro_batch_size_per_gpu"], found["gradient_accumulation_steps"]) == (2, 4)
    zero = found["zero_optimization"]
    assert (zero["stage"], zero["offload_optimizer"]["device"], zero["offload_param"]["device"]) == (3, "cpu", "cpu")
    assert found["bf16"] == {"enabled": True}


def test_ringlab_takes_the_flags_that_the_planner_takes(capsys):
    text = emit("ringlab", MODELS["gpt2"], Layout(dp=2, pp=3, tp=2, zero=1, global_batch=24, microbatch=2))
    told = text.replace("\\\n", " ").split()
    assert told[:4] == ["python", "-m", "parallel", "train"]
    assert DOOR.main(["step", *told[4:], "--gpu", "a100"]) == 0
    assert "DP 2 × PP 3 × TP 2 = 12 GPUs, ZeRO-1" in capsys.readouterr().out


@pytest.mark.parametrize(("target", "plan", "sentence"), [
    ("megatron", Layout(dp=8, zero=3), "megatron does not run zero=3: use 0, 1"),
    ("megatron", Layout(pp=4, schedule="zbv"), "megatron does not run schedule=zbv: use 1f1b, interleaved"),
    ("deepspeed", Layout(cp=2), "deepspeed does not run cp=2: use 1"),
    ("deepspeed", Layout(pp=4, zero=1), "deepspeed does not run pp=4: use 1"),
    ("torchtitan", Layout(offload=("activations",)), "offload=activations: use none, optimizer+parameters"),
    ("slurm", Layout(), "--emit slurm: use torchtitan, megatron, deepspeed, ringlab"),
])  # fmt: skip
def test_what_it_cannot_run_is_refused(target, plan, sentence):
    with pytest.raises(ValueError, match="use") as refused:
        emit(target, LLAMA, plan)
    assert sentence in str(refused.value)


def test_the_search_is_kept_to_what_the_target_runs(capsys):
    for target in CAN:
        told = ["plan", "--model", "llama3-8b", "--gpus", "8", "--gpu", "h100", "--global-batch", "16"]
        assert DOOR.main([*told, "--emit", target, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["emit"]
        for plan in found["plans"]:
            for axis, values in CAN[target].items():
                value = tuple(plan[axis]) if axis == "offload" else plan[axis]
                assert value in values
