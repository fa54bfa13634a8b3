"""``compare``: predictions beside a run of ``parallel compare`` or ``parallel train``."""

from __future__ import annotations

import argparse
import json
import statistics
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from .planning import (
    MODEL_HELP,
    SPLIT,
    add_gpu,
    add_json,
    add_layout,
    add_model,
    count_of,
    layout_of,
    model_of,
    run,
    split_text,
)

if TYPE_CHECKING:
    from parallel.model import Config
    from parallel.strategies import Strategy

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
KINDS = ("parameters", "gradients", "optimizer", "activations")
STATES = KINDS[:3]  # what a rank holds at rest
NOTES = (
    "bytes of one rank: sent in a step, held before the update, activations at their highest",
    "offloaded activations: the prediction is the most there may be; dp: threads, no step time is predicted",
)


@dataclass(frozen=True)
class Shape:
    """The numbers of parallel's GPT, whose own class comes with torch."""

    layers: int
    hidden: int
    heads: int
    positions: int
    vocabulary: int


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
    from ..planner.models import MODELS

    if args.model or args.layers or args.parameters:
        return model_of(args)
    name = environment.get("model")
    if name not in MODELS:
        raise ValueError(f"the file's model is {name!r}: describe it with --layers, --hidden and --heads")
    return replace(MODELS[name], sequence=int(environment.get("length", 64)))


def _row(args: argparse.Namespace, said: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """One strategy: measured, and predicted by the closed forms of ``parallel``, which count to the byte."""
    from parallel.expectations import Job, bytes_sent, memory
    from parallel.strategies import STRATEGIES

    environment, name = said.get("environment", {}), row["strategy"]
    found: dict[str, Any] = {
        "strategy": name, "step_s": row["step_s"], "bytes_sent": row.get("bytes_sent"), "memory": row.get("memory")
    }  # fmt: skip
    if name not in STRATEGIES:
        return {**found, "left_out": f"{name} is no strategy of parallel"}
    model, strategy = _model(args, environment), STRATEGIES[name]
    ranks = count_of(args, "gpus") or int(environment.get("ranks", 1))
    batch = count_of(args, "global_batch") or int(environment.get("batch", 2 * ranks))
    shape = Shape(model.layers, model.hidden, model.heads, model.positions or model.sequence, model.vocab)
    job = Job(model.name, cast("Config", shape), ranks, batch, model.sequence)
    found |= {"predicted_bytes_sent": bytes_sent(strategy, job), "predicted_memory": memory(strategy, job)}
    if args.gpu or args.machine:
        layout = layout_of_strategy(strategy, ranks, batch)
        found["predicted_step_s"] = _seconds(args, model, layout) if layout else None
    return found


def layout_of_strategy(strategy: Strategy, ranks: int, batch: int) -> Layout | None:
    """The strategy as a plan of the planner; none of threads, which share one GIL."""
    from ..planner.layout import Layout
    from ..planner.precision import find_precision

    if strategy.wrapper == "threads":
        return None
    dp = 1 if strategy.alone else ranks
    places = [("activations", strategy.activations == "away"), ("optimizer", strategy.optimizer in ("away", "on-host"))]
    optimizer = "adam8bit" if strategy.optimizer == "adam-8bit" else "adam"
    return Layout(
        dp=dp,
        microbatch=batch // dp,
        global_batch=batch,
        zero=2 if strategy.kept else strategy.stage,  # parameters that stay are gathered once a step
        wire=strategy.wire or "",
        recompute="full" if strategy.activations == "recomputed" else "none",
        offload=tuple(place for place, away in places if away),
        precision=find_precision(strategy.computes, optimizer),
    )


def _seconds(args: argparse.Namespace, model: Transformer, layout: Layout) -> float:
    from ..planner.constants import software_of
    from ..planner.step import step_time
    from .step import hardware_of

    hardware = hardware_of(args)
    return float(step_time(model, layout, hardware, software_of(args.software or "", hardware.chip.name)).time_s)


def _training(args: argparse.Namespace, said: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A run's median step, without its first, beside the plan that the options describe, or else the file."""
    from ..planner.constants import error_of, software_of
    from ..units import show_time
    from .step import error_text, hardware_of

    environment = said.get("environment", {})
    model, args = _model(args, environment), _with_split(args, environment)
    layout, notes = layout_of(args, model)
    steps = [float(step["step_s"]) for step in said["steps"]]
    measured = statistics.median(steps[1:] or steps)
    content: dict[str, Any] = {
        "file": args.file, "model": model.name, "plan": split_text(layout), "steps": len(steps),
        "measured_s": measured, "predicted_s": None, "error": None, "notes": notes,
    }  # fmt: skip
    lines = [
        f"{model.name}, {content['plan']}: {len(steps)} steps",
        f"  measured   {show_time(measured):>12}   median without the first",
    ]
    held = _held(model, layout, said.get("memory"))
    content |= {"memory": said.get("memory"), "predicted_memory": held}
    table = _states(said["memory"], held) if held else []
    if not (args.gpu or args.machine):
        return "\n".join([*lines, "  predicted            -   on a GPU: add --gpu, like --gpu h100", *table]), content
    hardware, predicted = hardware_of(args), _seconds(args, model, layout)
    error = error_of(software_of(args.software or "", hardware.chip.name), bool(model.experts))
    content |= {"predicted_s": predicted, "error": predicted / measured - 1}
    lines += [
        f"  predicted  {show_time(predicted):>12}   {predicted / measured - 1:+.1%}",
        f"  {error_text(None if error is None else vars(error))}",
    ]
    return "\n".join([*lines, *table]), content


def _held(model: Transformer, layout: Layout, measured: object) -> dict[str, float] | None:
    """Bytes at rest by kind, each of the stage that holds most of it; None where the file has none.

    ``parallel train`` differs from Megatron, which the planner counts, in two things: every tensor parallel rank has
    the whole table of positions, and stage 1 of ZeRO keeps no more than its slice of gradients when a step is over.
    """
    from ..planner.memory import ledgers

    if not isinstance(measured, dict) or not all(kind in measured for kind in STATES):
        return None
    sliced = replace(layout, zero=max(2, layout.zero)) if layout.zero else layout
    bare = replace(model, positions=0)
    held = {}
    for kind in STATES:
        plan = sliced if kind == "gradients" else layout
        whole, without = (ledgers(one, replace(plan, tp=1, sp=False))[0] for one in (model, bare))
        stages = [float(getattr(stage, kind)) for stage in ledgers(bare, plan)]
        stages[0] += getattr(whole, kind) - getattr(without, kind)
        held[kind] = max(stages)
    return held


def _states(measured: dict[str, float], predicted: dict[str, float]) -> list[str]:
    lines = ["", f"  {'bytes of a rank':<16}{'measured':>16}{'predicted':>16}"]
    for kind in STATES:
        off = predicted[kind] / measured[kind] - 1 if measured[kind] else 0.0
        lines.append(f"  {kind:<16}{measured[kind]:>16,.0f}{predicted[kind]:>16,.0f}{off:>+9.1%}")
    return lines


def _with_split(args: argparse.Namespace, environment: dict[str, Any]) -> argparse.Namespace:
    """The options; those that were left out as the file says them."""
    told = dict(vars(args))
    words = {"precision": environment.get("precision"), "schedule": environment.get("schedule")}
    words |= {"recompute": environment.get("recompute"), "offload": ",".join(environment.get("offload") or ())}
    words["sp"] = "on" if environment.get("sp") else None
    told |= {name: word for name, word in words.items() if told.get(name) is None and word}
    told["fp32_gradients"] |= "precision" in environment  # as parallel train adds microbatches up
    for name, key in [(name, name) for name in SPLIT] + [("gpus", "ranks"), ("global_batch", "batch")]:
        if told[name] is None and isinstance(environment.get(key), int):
            told[name] = str(environment[key])
    return argparse.Namespace(**told)


def _table(rows: list[dict[str, Any]]) -> str:
    lines = [f"{'measured / predicted':<20}{'step s':>20}{'bytes sent':>24}" + "".join(f"{k:>24}" for k in KINDS)]
    for row in rows:
        if "left_out" in row:
            lines.append(f"{row['strategy']:<20}{row['step_s']:>9.4g} / -         # {row['left_out']}")
            continue
        seconds = row.get("predicted_step_s")
        step = f"{row['step_s']:.4g} / " + (f"{seconds:.4g}" if seconds else "-")
        pairs = [_pair(row["bytes_sent"], row["predicted_bytes_sent"])]
        held = row["memory"] if isinstance(row["memory"], dict) else {}
        pairs += [_pair(held.get(kind), row["predicted_memory"][kind]) for kind in KINDS]
        lines.append(f"{row['strategy']:<20}{step:>20}" + "".join(f"{pair:>24}" for pair in pairs))
    return "\n".join([*lines, *(f"# {note}" for note in NOTES)])


def _pair(measured: float | None, predicted: float | None) -> str:
    return " / ".join("-" if number is None else f"{number:,.0f}" for number in (measured, predicted))
