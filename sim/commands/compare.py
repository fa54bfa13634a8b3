"""``compare``: predictions beside a run of ``parallel compare`` or ``parallel train``."""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .planning import MODEL_HELP, add_gpu, add_json, add_layout, add_model, count_of, layout_of, model_of, run

if TYPE_CHECKING:
    from ..planner.layout import Layout
    from ..planner.transformer import Transformer

HELP = "predictions beside measured steps: bytes sent, memory and time of a run of parallel compare or parallel train"
EXAMPLES = f"""examples:
  python -m parallel compare --model small --ranks 4 --json rows.json && python -m sim compare rows.json
  python -m sim compare train.json --model llama3-8b --gpus 8 --zero 3 --gpu h100

{MODEL_HELP}

The file says its model, ranks and batch (environment); options come before it. Time is
predicted where a GPU is named; bytes are of one rank and one step.

exit status: 0, 2 for a wrong argument or a file that is none"""
SHAPES = {"tiny": (2, 32, 4), "small": (4, 128, 4), "25m": (8, 512, 8)}  # of parallel: layers, hidden, heads
VOCABULARY = 256
KINDS = ("parameters", "gradients", "optimizer")
BASE: dict[str, Any] = {"precision": "fp32"}
# What ``parallel`` calls its strategies, as plans of the planner; of others the reason why they are not.
STRATEGIES: dict[str, dict[str, Any]] = {
    "single": {**BASE, "alone": True},
    "ddp": BASE,
    "ddp-fp16": {**BASE, "wire": "fp16"},
    "ddp-bf16": {**BASE, "wire": "bf16"},
    "zero-1": {**BASE, "zero": 1},
    "zero-2": {**BASE, "zero": 2},
    "zero-3": {**BASE, "zero": 3},
    "bf16": {"precision": "bf16"},
    "fp16": {"precision": "fp16"},
    "zero-3-bf16": {"precision": "bf16", "zero": 3},
    "recompute": {**BASE, "recompute": "full"},
    "offload-activations": {**BASE, "offload": ("activations",)},
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="JSON of parallel compare or parallel train")
    add_model(parser)
    add_layout(parser)
    add_gpu(parser)
    parser.add_argument("--software", metavar="NAME", help="whose constants (default: what is usual on the GPU)")
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    return run(args, work)


def work(args: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    said = _read(args.file)
    if "rows" in said:
        content = {"file": args.file, "rows": [_row(args, said, row) for row in said["rows"]]}
        return _table(content["rows"]), content
    return _training(args, said)


def _read(path: str) -> dict[str, Any]:
    """Raises:
    ValueError: no JSON, or not of these commands.
    """
    try:
        said: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: cannot be read ({error})") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}, line {error.lineno}: is no JSON ({error.msg})") from None
    for key, needed in (("rows", ("strategy", "step_s")), ("steps", ("step_s",))):
        rows = said.get(key) if isinstance(said, dict) else None
        if isinstance(rows, list) and rows:
            for number, row in enumerate(rows):
                missing = [name for name in needed if not isinstance(row, dict) or name not in row]
                if missing:
                    raise ValueError(f"{path}: {key}[{number}] has no {', '.join(missing)}")
            return said
    raise ValueError(
        f"{path}: has neither rows nor steps; write it with parallel compare --json or parallel train --json"
    )


def _model(args: argparse.Namespace, environment: dict[str, Any]) -> Transformer:
    """What the options describe, else what the file says."""
    from ..planner.transformer import Transformer

    if args.model or args.layers or args.parameters:
        return model_of(args)
    name = environment.get("model")
    if name not in SHAPES:
        raise ValueError(f"the file's model is {name!r}: describe it with --layers, --hidden and --heads")
    layers, hidden, heads = SHAPES[name]
    length = int(environment.get("length", 64))
    places = 128 if name == "small" else 64 if name == "tiny" else 256
    return Transformer(name, layers, hidden, heads, 4 * hidden, VOCABULARY, length, positions=places, dropout=False)


def _row(args: argparse.Namespace, said: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """One strategy: measured and predicted."""
    from ..planner.memory import stage_ledger

    environment = said.get("environment", {})
    name, measured_memory = row["strategy"], row.get("memory")
    found: dict[str, Any] = {"strategy": name, "step_s": row["step_s"], "bytes_sent": row.get("bytes_sent")}
    if name not in STRATEGIES:
        return {**found, "left_out": f"the planner does not know {name}"}
    model, layout = _model(args, environment), _layout(args, environment, STRATEGIES[name])
    ledger = stage_ledger(model, layout, 0, fragmentation=0.0)
    memory = {kind: round(getattr(ledger, kind)) for kind in KINDS}
    memory["activations"] = round(ledger.activations + ledger.logits)
    found |= {"predicted_bytes_sent": bytes_sent(model, layout), "predicted_memory": memory, "memory": measured_memory}
    if args.gpu or args.machine:
        found["predicted_step_s"] = _seconds(args, model, layout)
    return found


def _layout(args: argparse.Namespace, environment: dict[str, Any], plan: dict[str, Any]) -> Layout:
    from ..planner.layout import Layout
    from ..planner.precision import find_precision

    ranks = count_of(args, "gpus") or int(environment.get("ranks", 1))
    batch = count_of(args, "global_batch") or int(environment.get("batch", 2 * ranks))
    alone = plan.get("alone", False)
    dp = 1 if alone else ranks
    chosen = {key: value for key, value in plan.items() if key not in ("alone", "precision")}
    return Layout(
        dp=dp, microbatch=batch // dp, global_batch=batch, precision=find_precision(plan["precision"]), **chosen
    )


def bytes_sent(model: Transformer, layout: Layout) -> float:
    """Of a rank, in a step over data parallel ranks: gradients in the dtype of their way, parameters in their own."""
    from parallel.formulas import elements_sent

    from ..planner.parameters import total

    sent = elements_sent(total(model), layout.dp, layout.zero, layout.microbatches)
    both = layout.zero == 0  # an all-reduce: a reduce-scatter of gradients and an all-gather of their sums
    gathered = layout.wire_bytes if both else layout.precision.state.parameters
    return sent.gradients * layout.wire_bytes + sent.parameters * gathered


def _seconds(args: argparse.Namespace, model: Transformer, layout: Layout) -> float:
    from ..planner.constants import software_of
    from ..planner.step import step_time
    from .step import hardware_of

    hardware = hardware_of(args)
    return float(step_time(model, layout, hardware, software_of(args.software or "", hardware.chip.name)).time_s)


def _training(args: argparse.Namespace, said: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A run's median step, without its first, beside the plan that the options describe."""
    from ..planner.constants import error_of, software_of
    from ..units import show_time
    from .step import error_text, hardware_of

    model = _model(args, said.get("environment", {}))
    layout, notes = layout_of(args, model)
    hardware = hardware_of(args)
    error = error_of(software_of(args.software or "", hardware.chip.name), bool(model.experts))
    steps = [float(step["step_s"]) for step in said["steps"]]
    measured, predicted = statistics.median(steps[1:] or steps), _seconds(args, model, layout)
    content = {
        "file": args.file, "steps": len(steps), "measured_s": measured, "predicted_s": predicted,
        "error": predicted / measured - 1, "notes": notes,
    }  # fmt: skip
    text = (
        f"{model.name}: {len(steps)} steps\n  measured   {show_time(measured):>12}   median without the first\n"
        f"  predicted  {show_time(predicted):>12}   {predicted / measured - 1:+.1%}\n"
        f"  {error_text(None if error is None else vars(error))}"
    )
    return text, content


def _table(rows: list[dict[str, Any]]) -> str:
    lines = [f"{'measured / predicted':<21}{'step s':>20}{'bytes sent':>26}" + "".join(f"{k:>24}" for k in KINDS)]
    for row in rows:
        if "left_out" in row:
            lines.append(f"{row['strategy']:<21}{row['step_s']:>9.4g} / -         # {row['left_out']}")
            continue
        step = f"{row['step_s']:.4g} / " + (f"{row['predicted_step_s']:.4g}" if "predicted_step_s" in row else "-")
        sent = f"{row['bytes_sent']:,} / {row['predicted_bytes_sent']:,.0f}"
        held = row["memory"] if isinstance(row["memory"], dict) else {}
        pairs = (f"{held.get(kind) or 0:,} / {row['predicted_memory'][kind]:,}" for kind in KINDS)
        lines.append(f"{row['strategy']:<21}{step:>20}{sent:>26}" + "".join(f"{pair:>24}" for pair in pairs))
    return "\n".join(lines)
