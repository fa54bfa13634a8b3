"""A plan in the words of those that run it: torchtitan, Megatron-LM, DeepSpeed, and this project's own ``parallel``.

Each can run a part of what the planner knows; ``CAN`` says of which axes which values, so that a search may be kept to
them, and :func:`refusal` what does not go together. Names and rules are those of torchtitan 0.2.2 (its job config and
parallelize functions), Megatron-LM at 000c4ac (its arguments, and Megatron-Core 0.16.1), DeepSpeed 0.19.8 (its JSON).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .arithmetic import ceil_div
from .layout import LOOPED, OFFLOADS, SCHEDULES, Layout
from .transformer import Transformer

TITAN = {
    "1f1b": "1F1B", "gpipe": "GPipe", "interleaved": "Interleaved1F1B", "looped": "LoopedBFS", "zbv": "ZBVZeroBubble",
    "dualpipev": "DualPipeV",
}  # fmt: skip
# Of torchtitan's models, those that are here: name and flavor.
FLAVORS = {
    "llama3-8b": "llama3 8B", "llama3-70b": "llama3 70B", "llama3.1-8b": "llama3 8B", "llama3.1-70b": "llama3 70B",
    "llama3.1-405b": "llama3 405B", "deepseek-v2": "deepseek_v3 236B", "deepseek-v3": "deepseek_v3 671B",
    "qwen3-30b-a3b": "qwen3 30B-A3B", "qwen3-235b-a22b": "qwen3 235B-A22B",
}  # fmt: skip
ALL = (("optimizer", "parameters"),)
CAN: Mapping[str, Mapping[str, Sequence[Any]]] = {
    "torchtitan": {"schedule": tuple(TITAN), "zero": (0, 2, 3), "offload": ((), *ALL), "overlap": (True,)},
    "megatron": {"schedule": ("1f1b", "interleaved"), "zero": (0, 1), "offload": ((), ("optimizer",))},
    "deepspeed": {"pp": (1,), "tp": (1,), "cp": (1,), "ep": (1,), "offload": ((), ("optimizer",), *ALL)},
    "ringlab": {
        "schedule": SCHEDULES, "cp": (1,), "ep": (1,), "recompute": ("none", "full"),
        "offload": ((), ("optimizer",), ("activations",), ("optimizer", "activations")),
    },
}  # fmt: skip


def emit(target: str, model: Transformer, layout: Layout) -> str:
    """The flags, or the file, that run this plan.

    Raises:
        ValueError: an unknown target, or what it cannot run, with what it can.
    """
    if target not in CAN:
        raise ValueError(f"--emit {target}: use {', '.join(CAN)}")
    for axis, values in CAN[target].items():
        value = getattr(layout, axis)
        if value not in values:
            raise ValueError(f"{target} does not run {axis}={_shown(value)}: use {', '.join(map(_shown, values))}")
    why = refusal(target, model, layout)
    if why:
        raise ValueError(f"{target} {why}")
    writers: dict[str, Callable[[Transformer, Layout], str]] = {
        "torchtitan": _torchtitan, "megatron": _megatron, "deepspeed": _deepspeed, "ringlab": _ringlab,
    }  # fmt: skip
    return writers[target](model, layout)


def refusal(target: str, model: Transformer, layout: Layout) -> str:
    """Which rule of the target this plan breaks, and what to use; empty for none."""
    name, compute = layout.precision.name, layout.precision.compute
    rules: Mapping[str, Sequence[tuple[bool, str]]] = {
        "torchtitan": (
            (layout.zero == 0 and layout.dp > 1 and layout.gpus > layout.dp, "replicates alone: use --zero 2"),
            (layout.tp > 1 and not layout.sp, "splits the sequence wherever it splits tensors: use --sp"),
            ("parameters" in layout.offload and layout.zero == 0, "offloads what FSDP shards: use --zero 3"),
            (_titan_stages(model, layout) != layout.pp * layout.chunks,
             f"cannot share {model.layers} layers out over {layout.pp * layout.chunks} stages: use other --pp, --vpp"),
            (name not in ("bf16", "fp32", "fp8"), f"does not compute in {name}: use --precision bf16"),
        ),
        "megatron": (
            (model.experts > 0 and layout.tp > 1 and not layout.sp, "has experts beside TP with SP: use --sp"),
            ("optimizer" in layout.offload and layout.zero == 0, "offloads what is sharded: use --zero 1"),
            (layout.cp > 1 and model.sequence % (2 * layout.cp) > 0, "cuts a sequence into 2 CP: use another --cp"),
            (layout.ep > 1 and compute == "fp16", "has no fp16 with --ep: use --precision bf16"),
            (name not in ("fp32", "fp16", "bf16", "fp8"), f"does not train in {name}: use --precision bf16"),
            (model.encoder, "pretrain_gpt.py trains no encoder: use a gpt or a llama"),
        ),
        "deepspeed": (
            (bool(layout.offload) and layout.zero == 0, "offloads what ZeRO shards: use --zero 1"),
            ("parameters" in layout.offload and layout.zero < 3, "offloads these with ZeRO-3: use --zero 3"),
            (name not in ("fp32", "fp16", "bf16"), f"has no {name} in its configuration: use --precision bf16"),
        ),
        "ringlab": (
            (name not in ("fp32", "fp16", "bf16"), f"does not train in {name}: use --precision bf16"),
        ),
    }  # fmt: skip
    return next((why for broken, why in rules[target] if broken), "")


def _titan_stages(model: Transformer, layout: Layout) -> int:
    """Stages that so many layers a stage make there, with nothing left out for embedding and output."""
    return ceil_div(model.layers, ceil_div(model.layers, layout.pp * layout.chunks))


def _shown(value: Any) -> str:
    return "+".join(value) or "none" if isinstance(value, tuple) else str(value)


def _flags(pairs: Sequence[tuple[str, Any]]) -> str:
    """One a line; True stands for a bare flag, False and None for none."""
    lines = [name if value is True else f"{name} {value}" for name, value in pairs if value not in (False, None)]
    return " \\\n    ".join(lines)


def _torchtitan(model: Transformer, layout: Layout) -> str:
    """ZeRO-2 keeps parameters gathered after the forward; DDP replicates and shards nothing."""
    split, piped = layout.zero > 0, layout.pp > 1
    local = layout.microbatch * (layout.microbatches if piped else 1)
    replicate, shard = (1, layout.dp) if split else (layout.dp, 1)
    name, _, flavor = FLAVORS.get(model.name, "").partition(" ")
    parallel = "--parallelism."
    return _flags([
        ("torchrun --nproc_per_node", f"{min(8, layout.gpus)} -m torchtitan.train"),
        ("--model.name", name or None),
        ("--model.flavor", flavor or None),
        ("--model.converters", "quantize.linear.float8" if layout.precision.compute == "fp8" else None),
        ("--training.mixed_precision_param", "float32" if layout.precision.compute == "fp32" else None),
        ("--training.seq_len", model.sequence),
        ("--training.local_batch_size", local),
        ("--training.global_batch_size", layout.samples),
        (f"{parallel}data_parallel_replicate_degree", replicate),
        (f"{parallel}data_parallel_shard_degree", shard),
        (f"{parallel}fsdp_reshard_after_forward", {2: "never", 3: "always"}.get(layout.zero)),
        (f"{parallel}tensor_parallel_degree", layout.tp),
        (f"{parallel}context_parallel_degree", layout.cp),
        (f"{parallel}expert_parallel_degree", layout.ep if model.experts else None),
        (f"{parallel}expert_tensor_parallel_degree", layout.expert_tp if model.experts else None),
        (f"{parallel}pipeline_parallel_degree", layout.pp),
        (f"{parallel}pipeline_parallel_schedule", TITAN[layout.schedule] if piped else None),
        (f"{parallel}pipeline_parallel_microbatch_size", layout.microbatch if piped else None),
        (f"{parallel}pipeline_parallel_layers_per_stage",
         ceil_div(model.layers, layout.pp * layout.chunks) if piped else None),
        (f"{parallel}pipeline_parallel_first_stage_less_layers", "0" if piped else None),
        (f"{parallel}pipeline_parallel_last_stage_less_layers", "0" if piped else None),
        ("--activation_checkpoint.mode", layout.recompute),
        ("--training.enable_cpu_offload", bool(layout.offload)),
    ])  # fmt: skip


def _megatron(model: Transformer, layout: Layout) -> str:
    full, sharded = layout.recompute == "full", layout.zero == 1
    overlap = layout.overlap and layout.replicas > 1
    dtype = {"fp16": "--fp16", "fp32": None}.get(layout.precision.compute, "--bf16")
    even = model.layers % (layout.pp * layout.chunks) == 0
    return _flags([
        ("torchrun --nproc_per_node", f"{min(8, layout.gpus)} pretrain_gpt.py"),
        *_megatron_model(model),
        ("--tensor-model-parallel-size", layout.tp),
        ("--sequence-parallel", layout.sp and layout.tp > 1),
        ("--pipeline-model-parallel-size", layout.pp),
        ("--num-virtual-stages-per-pipeline-rank", layout.vpp if layout.vpp > 1 and even else None),
        ("--pipeline-model-parallel-layout", None if even else f"'{_stages(model, layout)}'"),
        ("--context-parallel-size", layout.cp),
        ("--expert-model-parallel-size", layout.ep if model.experts else None),
        ("--expert-tensor-parallel-size", layout.expert_tp if model.experts else None),
        ("--micro-batch-size", layout.microbatch),
        ("--global-batch-size", layout.samples),
        ("--use-distributed-optimizer", sharded),
        ("--overlap-grad-reduce", overlap),
        ("--overlap-param-gather", overlap and sharded),
        ("--optimizer-cpu-offload", "optimizer" in layout.offload),
        ("--use-precision-aware-optimizer", "optimizer" in layout.offload),
        ("--recompute-granularity", layout.recompute if layout.recompute != "none" else None),
        ("--recompute-method", "uniform" if full else None),
        ("--recompute-num-layers", 1 if full else None),
        ("--attention-backend", "flash" if layout.flash else "unfused"),
        (dtype or "", bool(dtype)),
        ("--fp8-format", "hybrid" if layout.precision.compute == "fp8" else None),
    ])  # fmt: skip


def _megatron_model(model: Transformer) -> list[tuple[str, Any]]:
    grouped, latent = model.kv_heads < model.heads, model.kv_rank > 0
    dense = f"'[0]*{model.dense_layers}+[1]*{model.layers - model.dense_layers}'"
    return [
        ("--num-layers", model.layers),
        ("--hidden-size", model.hidden),
        ("--ffn-hidden-size", model.ffn),
        ("--num-attention-heads", model.heads),
        ("--kv-channels", model.head if model.head * model.heads != model.hidden and not latent else None),
        ("--group-query-attention", grouped),
        ("--num-query-groups", model.kv_heads if grouped else None),
        ("--multi-latent-attention", latent),
        ("--q-lora-rank", model.q_rank or None),
        ("--kv-lora-rank", model.kv_rank or None),
        ("--qk-head-dim", model.head if latent else None),
        ("--v-head-dim", model.head if latent else None),
        ("--qk-pos-emb-head-dim", model.rope or None),
        ("--qk-layernorm", model.qk_norm or latent),
        ("--swiglu", model.gated),
        ("--normalization", None if model.bias else "RMSNorm"),
        ("--disable-bias-linear", not model.bias),
        ("--position-embedding-type", "learned_absolute" if model.positions else "rope"),
        ("--untie-embeddings-and-output-weights", model.output == "untied"),
        ("--num-experts", model.experts or None),
        ("--moe-router-topk", model.top_k if model.experts else None),
        ("--moe-ffn-hidden-size", model.expert_ffn if model.experts else None),
        ("--moe-shared-expert-intermediate-size", model.shared_ffn or None),
        ("--moe-layer-freq", dense if model.dense_layers else None),
        ("--moe-grouped-gemm", model.experts > 0),
        ("--moe-token-dispatcher-type", "alltoall" if model.experts else None),
        ("--seq-length", model.sequence),
        ("--max-position-embeddings", model.positions or model.sequence),
    ]


def _stages(model: Transformer, layout: Layout) -> str:
    """What each virtual stage has: E the embedding, t a layer, L the loss."""
    virtual = layout.pp * layout.chunks
    alone = Layout(pp=virtual)  # as if each of them had a rank
    stages = ["t" * int(alone.layers_of(model, stage)[0]) for stage in range(virtual)]
    return "E" + "|".join(stages) + "L"


def _deepspeed(model: Transformer, layout: Layout) -> str:
    """The JSON of ``--deepspeed_config``. Its pipelines take no ZeRO above 1 and are built in the program: not here."""
    zero: dict[str, Any] = {"stage": layout.zero, "overlap_comm": layout.overlap}
    for what, key in (("optimizer", "offload_optimizer"), ("parameters", "offload_param")):
        if what in layout.offload:
            zero[key] = {"device": "cpu", "pin_memory": True}
    content: dict[str, Any] = {
        "train_batch_size": layout.samples,
        "train_micro_batch_size_per_gpu": layout.microbatch,
        "gradient_accumulation_steps": layout.microbatches,
        "zero_optimization": zero,
        "bf16" if layout.precision.name == "bf16" else "fp16": {"enabled": layout.precision.compute != "fp32"},
        "gradient_clipping": 1.0,
    }
    if layout.recompute == "full":
        content["activation_checkpointing"] = {"partition_activations": False}
    return json.dumps(content, indent=2)


def _ringlab(model: Transformer, layout: Layout) -> str:
    """``python -m parallel train``: its batch is that of all ranks, in so many microbatches on each."""
    axes = [(f"--{name}", size) for name in ("dp", "pp", "tp") if (size := getattr(layout, name)) > 1]
    recompute, offload = layout.recompute, ",".join(name for name in OFFLOADS if name in layout.offload)
    return _flags([
        ("python -m parallel train --model", model.name),
        ("--ranks", layout.gpus),
        *axes,
        ("--zero", layout.zero or None),
        ("--sp", layout.sp and layout.tp > 1),
        ("--batch", layout.samples),
        ("--sequence", model.sequence),
        ("--microbatches", layout.microbatches),
        ("--schedule", layout.schedule if layout.pp > 1 else None),
        ("--vpp", layout.vpp if layout.schedule in LOOPED and layout.vpp > 1 else None),
        ("--precision", layout.precision.name),
        ("--recompute", recompute if recompute != "none" else None),
        ("--offload", offload or None),
    ])  # fmt: skip
