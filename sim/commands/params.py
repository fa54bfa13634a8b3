"""``params``: how many parameters a model has, by part, and how many each GPU of a layout holds."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from .planning import MODEL_HELP, add_json, add_layout, add_model, layout_of, model_of, run, split_text

if TYPE_CHECKING:
    from ..planner.layout import Layout
    from ..planner.transformer import Transformer

HELP = "count a model's parameters, by part and per GPU"
EXAMPLES = f"""examples:
  python -m sim params --model gpt3-175b
  python -m sim params --model gpt3-175b --dp 8 --tp 8 --pp 16
  python -m sim params --model mixtral-8x7b --gpus 64 --ep 8 --tp 2 --zero 1
  python -m sim params --layers 48 --hidden 6144 --heads 48 --kv-heads 8 --ffn 16384 --vocab 128256

{MODEL_HELP}

exit status: 0, 2 for a wrong argument"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_layout(parser)
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    return run(args, work)


def work(args: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    model = model_of(args)
    layout, notes = layout_of(args, model)
    content = numbers(model, layout)
    return report(model, layout, content, notes), {**content, "notes": notes}


def numbers(model: Transformer, layout: Layout) -> dict[str, Any]:
    """Everything; ``per_gpu`` is of the stage that holds most, after ZeRO-3 if that is the layout."""
    from parallel.formulas import STAGES, shard, state_bytes

    from ..planner.parameters import active, by_formula, on_stage, parts, total

    stages = [on_stage(model, layout, stage) for stage in range(layout.pp)]
    fullest = max(stages, key=lambda held: held.total)
    split = layout.zero == 3
    own = shard(fullest.shared, layout.replicas) + shard(fullest.experts, layout.expert_replicas)
    content: dict[str, Any] = {
        "model": model.name,
        "total": total(model),
        "active": active(model),
        "parts": parts(model),
        "gpus": layout.gpus,
        "per_gpu": own if split else fullest.total,
        "stages": [held.total for held in stages],
        "bytes": {
            str(zero): round(
                state_bytes(fullest.shared, layout.replicas, zero, layout.precision.state).total
                + state_bytes(fullest.experts, layout.expert_replicas, zero, layout.precision.state).total
            )
            for zero in STAGES
        },
    }
    if not (model.gated or model.experts or model.encoder) and model.ffn == 4 * model.hidden:
        rule, each = by_formula(model, layout), layout.precision.state
        content["formula"] = {
            "parameters": rule,
            "bytes": {
                "0": rule * each.total,
                "1": rule * (each.total - each.optimizer) + rule * each.optimizer / layout.replicas,
                "2": rule * each.parameters + rule * (each.total - each.parameters) / layout.replicas,
                "3": rule * each.total / layout.replicas,
            },
        }
    return content


def report(model: Transformer, layout: Layout, content: dict[str, Any], notes: list[str]) -> str:
    """The numbers, for people."""
    from ..units import show_count

    total = content["total"]
    lines = [f"{model.name}: {total:,} parameters ({show_count(total)})", ""]
    for name, number in content["parts"].items():
        lines.append(f"  {name:<18}{number:>23,}{number / total:>8.1%}")
    if content["active"] != total:
        lines += ["", f"  a token meets {content['active']:,} of them ({show_count(content['active'])})"]
    lines += ["", f"per GPU, {split_text(layout)}", ""]
    if layout.pp > 1:
        lines += [f"  {text}" for text in _stages(content["stages"])]
        lines.append("")
    what = "the fullest stage" if layout.pp > 1 else "a GPU"
    lines.append(f"  {what} holds {content['per_gpu']:,} parameters ({show_count(content['per_gpu'])})")
    lines += ["", f"  with gradients and optimizer, in GB   {'ZeRO-0':>9}{'ZeRO-1':>9}{'ZeRO-2':>9}{'ZeRO-3':>9}"]
    lines.append(_row("exact", content["bytes"]))
    if "formula" in content:
        lines.append(_row("l·12h²/(TP·PP) + (V+s)·h/TP", content["formula"]["bytes"]))
        rule = content["formula"]["parameters"]
        lines.append(f"  (that rule of thumb: {rule:,.0f} parameters, {rule / 1e9:.4f}e9; no biases, no norms)")
    return "\n".join([*lines, *(f"# {note}" for note in notes)])


def _row(name: str, sizes: dict[str, float]) -> str:
    return f"  {name:<36}" + "".join(f"{nbytes / 1e9:>9.2f}" for nbytes in sizes.values())


def _stages(stages: list[int]) -> list[str]:
    """A line for each run of stages that hold the same."""
    lines, start = [], 0
    for stage in range(1, len(stages) + 1):
        if stage == len(stages) or stages[stage] != stages[start]:
            name = f"stage {start}" if stage - start == 1 else f"stages {start}-{stage - 1}"
            lines.append(f"{name:<18}{stages[start]:>23,}")
            start = stage
    return lines
