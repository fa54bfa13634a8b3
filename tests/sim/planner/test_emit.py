"""A plan in others' words: every flag is one that they have, and what they cannot run is refused."""

from __future__ import annotations

import json

import pytest

from sim.__main__ import DOOR
from sim.planner.emit import CAN, emit, refusal
from sim.planner.layout import Layout
from sim.planner.models import MODELS
from sim.planner.precision import PRECISIONS

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
    assert (found["--normalization"], found["--position-embedding-type"]) == ("RMSNorm", "rope")
    old = flags(emit("megatron", MODELS["gpt3-175b"], PLAN))
    assert old["--position-embedding-type"] == "learned_absolute"
    assert not {"--normalization", "--swiglu", "--disable-bias-linear"} & set(old)


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


def test_ringlab_takes_the_flags_of_parallel_train():
    text = emit("ringlab", MODELS["small"], Layout(dp=2, pp=2, tp=2, zero=1, vpp=2, schedule="interleaved",
                                                   global_batch=24, microbatch=2))  # fmt: skip
    found = flags(text)
    assert text.startswith("python -m parallel train --model small")
    assert {"--dp": "2", "--pp": "2", "--tp": "2", "--zero": "1", "--ranks": "8"}.items() <= found.items()
    # 24 rows over two replicas, two at a time
    assert {"--batch": "24", "--microbatches": "6", "--sequence": "128"}.items() <= found.items()
    assert {"--schedule": "interleaved", "--vpp": "2", "--precision": "bf16"}.items() <= found.items()
    alone = flags(emit("ringlab", MODELS["tiny"], Layout(global_batch=4, microbatch=4, recompute="full")))
    assert (alone["--ranks"], alone["--microbatches"], alone["--recompute"]) == ("1", "1", "full")
    assert not {"--dp", "--schedule", "--vpp", "--zero", "--sp"} & set(alone)


# What the programs' own parsers have: read in their releases.
TITAN_FLAGS = """
model.name model.flavor model.converters training.mixed_precision_param training.seq_len training.local_batch_size
training.global_batch_size training.enable_cpu_offload activation_checkpoint.mode
parallelism.data_parallel_replicate_degree parallelism.data_parallel_shard_degree
parallelism.fsdp_reshard_after_forward parallelism.tensor_parallel_degree parallelism.context_parallel_degree
parallelism.expert_parallel_degree parallelism.expert_tensor_parallel_degree parallelism.pipeline_parallel_degree
parallelism.pipeline_parallel_schedule parallelism.pipeline_parallel_microbatch_size
parallelism.pipeline_parallel_layers_per_stage parallelism.pipeline_parallel_first_stage_less_layers
parallelism.pipeline_parallel_last_stage_less_layers
"""
MEGATRON_FLAGS = """
num-layers hidden-size ffn-hidden-size num-attention-heads kv-channels group-query-attention num-query-groups
multi-latent-attention q-lora-rank kv-lora-rank qk-head-dim v-head-dim qk-pos-emb-head-dim qk-layernorm swiglu
normalization disable-bias-linear position-embedding-type untie-embeddings-and-output-weights num-experts
moe-router-topk moe-ffn-hidden-size moe-shared-expert-intermediate-size moe-layer-freq moe-grouped-gemm
moe-token-dispatcher-type seq-length max-position-embeddings tensor-model-parallel-size sequence-parallel
pipeline-model-parallel-size num-virtual-stages-per-pipeline-rank pipeline-model-parallel-layout context-parallel-size
expert-model-parallel-size expert-tensor-parallel-size micro-batch-size global-batch-size
use-distributed-optimizer overlap-grad-reduce overlap-param-gather optimizer-cpu-offload
use-precision-aware-optimizer recompute-granularity recompute-method recompute-num-layers attention-backend bf16
fp16 fp8-format
"""
PLANS = [
    Layout(dp=4, global_batch=16),
    PLAN,
    Layout(dp=2, zero=3, pp=2, tp=2, sp=True, recompute="full", global_batch=16, offload=("optimizer", "parameters")),
    Layout(dp=2, zero=1, tp=2, sp=True, recompute="selective", flash=False, global_batch=16, offload=("optimizer",)),
    Layout(dp=8, zero=1, ep=8, etp=1, cp=2, global_batch=16, precision=PRECISIONS["fp8"]),
]


@pytest.mark.parametrize(("target", "known"), [("torchtitan", TITAN_FLAGS), ("megatron", MEGATRON_FLAGS)])
def test_every_flag_is_one_that_the_program_has(target, known):
    written = set()
    for plan in PLANS:
        for name in ("llama3-70b", "gpt3-175b", "qwen3-30b-a3b", "deepseek-v3"):
            try:
                written |= set(flags(emit(target, MODELS[name], plan)))
            except ValueError:
                continue
    written -= {"torchrun"}
    assert len(written) > 15
    assert written <= {f"--{name}" for name in known.split()}


def test_layers_that_do_not_divide_are_laid_out_for_megatron():
    model = MODELS["deepseek-v3"]  # 61 layers
    found = flags(emit("megatron", model, Layout(dp=8, pp=4, ep=8, etp=1, zero=1, global_batch=64)))
    assert found["--pipeline-model-parallel-layout"] == f"'E{'t' * 15}|{'t' * 16}|{'t' * 15}|{'t' * 15}L'"
    assert found["--moe-layer-freq"] == "'[0]*3+[1]*58'"
    twice = flags(emit("megatron", MODELS["llama3.1-405b"], Layout(pp=4, vpp=9, schedule="interleaved")))
    pieces = twice["--pipeline-model-parallel-layout"].strip("'EL").split("|")
    assert (len(pieces), sum(map(len, pieces))) == (36, 126)
    assert "--num-virtual-stages-per-pipeline-rank" not in twice


@pytest.mark.parametrize(("target", "plan", "sentence"), [
    ("megatron", Layout(dp=8, zero=3), "megatron does not run zero=3: use 0, 1"),
    ("megatron", Layout(pp=4, schedule="zbv"), "megatron does not run schedule=zbv: use 1f1b, interleaved"),
    ("deepspeed", Layout(cp=2), "deepspeed does not run cp=2: use 1"),
    ("deepspeed", Layout(pp=4, zero=1), "deepspeed does not run pp=4: use 1"),
    ("torchtitan", Layout(offload=("activations",)), "offload=activations: use none, optimizer+parameters"),
    ("torchtitan", Layout(dp=2, tp=2, sp=True), "torchtitan replicates alone: use --zero 2"),
    ("torchtitan", Layout(dp=2, tp=2, zero=3), "torchtitan splits the sequence wherever it splits tensors: use --sp"),
    ("torchtitan", Layout(pp=32, zero=0), "cannot share 80 layers out over 32 stages: use other --pp, --vpp"),
    ("megatron", Layout(dp=2, offload=("optimizer",)), "megatron offloads what is sharded: use --zero 1"),
    ("deepspeed", Layout(dp=2, offload=("optimizer",)), "deepspeed offloads what ZeRO shards: use --zero 1"),
    ("deepspeed", Layout(dp=2, zero=2, precision=PRECISIONS["fp8"]), "deepspeed has no fp8 in its configuration"),
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
            axes = ("dp", "pp", "tp", "cp", "ep", "vpp", "sp", "zero", "microbatch", "global_batch", "schedule")
            layout = Layout(**{axis: plan[axis] for axis in axes}, offload=tuple(plan["offload"]))
            assert not refusal(target, MODELS["llama3-8b"], layout)
            for axis, values in CAN[target].items():
                value = tuple(plan[axis]) if axis == "offload" else plan[axis]
                assert value in values
