"""A plan in the words of those that run it: torchtitan, Megatron-LM, DeepSpeed, and this project's own ``parallel``.

Each can run a part of what the planner knows; ``CAN`` says which, so that a search may be kept to it. The names of
flags are those of torchtitan's job config (0.2), Megatron-LM's arguments (core 0.13) and DeepSpeed's JSON (0.17).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .layout import SCHEDULES, Layout
from .transformer import Transformer

TITAN = {
    "1f1b": "1F1B", "gpipe": "GPipe", "interleaved": "Interleaved1F1B", "looped": "LoopedBFS", "zbv": "ZBVZeroBubble",
    "dualpipev": "DualPipeV",
}  # fmt: skip
ALL = (("optimizer", "parameters"),)
CAN: Mapping[str, Mapping[str, Sequence[Any]]] = {
    "torchtitan": {"schedule": tuple(TITAN), "zero": (0, 2, 3), "offload": ((), *ALL), "overlap": (True,)},
    "megatron": {"schedule": ("1f1b", "interleaved"), "zero": (0, 1), "offload": ((), ("optimizer",))},
    "deepspeed": {"pp": (1,), "tp": (1,), "cp": (1,), "ep": (1,), "offload": ((), ("optimizer",), *ALL)},
    "ringlab": {"schedule": SCHEDULES, "cp": (1,), "ep": (1,)},
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
    writers: dict[str, Callable[[Transformer, Layout], str]] = {
        "torchtitan": _torchtitan, "megatron": _megatron, "deepspeed": _deepspeed, "ringlab": _ringlab,
    }  # fmt: skip
    return writers[target](model, layout)


def _shown(value: Any) -> str:
    return "+".join(value) or "none" if isinstance(value, tuple) else str(value)


def _flags(pairs: Sequence[tuple[str, Any]]) -> str:
    """One a line; True stands for a bare flag, False and None for none."""
    lines = [name if value is True else f"{name} {value}" for name, value in pairs if value not in (False, None)]
    return " \\\n    ".join(lines)


def _torchtitan(model: Transformer, layout: Layout) -> str:
    """ZeRO-2 keeps parameters gathered after the forward; DDP replicates and shards nothing."""
    split = layout.zero > 0
    local = layout.microbatch * (layout.microbatches if layout.pp > 1 else 1)
    replicate, shard = (1, layout.dp) if split else (layout.dp, 1)
    parallel = "--parallelism."
    return _flags([
        ("torchrun --nproc_per_node", f"{min(8, layout.gpus)} -m torchtitan.train"),
        ("--training.seq_len", model.sequence),
        ("--training.local_batch_size", local),
        ("--training.global_batch_size", layout.samples),
        (f"{parallel}data_parallel_replicate_degree", replicate),
        (f"{parallel}data_parallel_shard_degree", shard),
        (f"{parallel}fsdp_reshard_after_forward", {2: "never", 3: "always"}.get(layout.zero)),
        (f"{parallel}tensor_parallel_degree", layout.tp),
        (f"{parallel}context_parallel_degree", layout.cp),
        (f"{parallel}expert_parallel_degree", layout.ep if model.experts else None),
        (f"{parallel}pipeline_parallel_degree", layout.pp),
        (f"{parallel}pipeline_parallel_schedule", TITAN[layout.schedule] if layout.pp > 1 else None),
        (f"{parallel}pipeline_parallel_microbatch_size", layout.microbatch if layout.pp > 1 else None),
        ("--activation_checkpoint.mode", layout.recompute),
        ("--training.enable_cpu_offload", bool(layout.offload)),
    ])  # fmt: skip


def _megatron(model: Transformer, layout: Layout) -> str:
    full = layout.recompute == "full"
    precision = {"bf16": "--bf16", "fp16": "--fp16"}.get(layout.precision.name, "")
    return _flags([
        ("torchrun --nproc_per_node", f"{min(8, layout.gpus)} pretrain_gpt.py"),
        ("--num-layers", model.layers),
        ("--hidden-size", model.hidden),
        ("--ffn-hidden-size", model.ffn),
        ("--num-attention-heads", model.heads),
        ("--group-query-attention", model.kv_heads < model.heads),
        ("--num-query-groups", model.kv_heads if model.kv_heads < model.heads else None),
        ("--swiglu", model.gated),
        ("--disable-bias-linear", not model.bias),
        ("--untie-embeddings-and-output-weights", model.output == "untied"),
        ("--num-experts", model.experts or None),
        ("--moe-router-topk", model.top_k if model.experts else None),
        ("--seq-length", model.sequence),
        ("--max-position-embeddings", model.positions or model.sequence),
        ("--tensor-model-parallel-size", layout.tp),
        ("--sequence-parallel", layout.sp),
        ("--pipeline-model-parallel-size", layout.pp),
        ("--num-virtual-stages-per-pipeline-rank", layout.vpp if layout.vpp > 1 else None),
        ("--context-parallel-size", layout.cp),
        ("--expert-model-parallel-size", layout.ep if model.experts else None),
        ("--expert-tensor-parallel-size", layout.expert_tp if model.experts else None),
        ("--micro-batch-size", layout.microbatch),
        ("--global-batch-size", layout.samples),
        ("--use-distributed-optimizer", layout.zero == 1),
        ("--overlap-grad-reduce", layout.overlap and layout.replicas > 1),
        ("--overlap-param-gather", layout.overlap and layout.zero == 1),
        ("--optimizer-cpu-offload", "optimizer" in layout.offload),
        ("--recompute-granularity", layout.recompute if layout.recompute != "none" else None),
        ("--recompute-method", "uniform" if full else None),
        ("--recompute-num-layers", 1 if full else None),
        ("--use-flash-attn", layout.flash),
        (precision, bool(precision)),
    ])  # fmt: skip


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
    """``parallel`` and the planner share their flags."""
    return _flags([("python -m parallel train --model", model.name), *own_flags(layout)])


def own_flags(layout: Layout) -> list[tuple[str, Any]]:
    """The plan as this project's own commands take it."""
    numbers = [(f"--{name}", getattr(layout, name)) for name in ("dp", "pp", "tp", "cp", "ep", "vpp")]
    looped = layout.pp > 1
    return [
        *((name, value) for name, value in numbers if value > 1),
        ("--zero", layout.zero or None),
        ("--sp", layout.sp),
        ("--microbatch", layout.microbatch),
        ("--global-batch", layout.samples),
        ("--schedule", layout.schedule if looped else None),
        ("--recompute", layout.recompute if layout.recompute != "none" else None),
        ("--offload", ",".join(layout.offload) or None),
        ("--no-overlap", not layout.overlap),
    ]
