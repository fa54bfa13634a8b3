"""``plan``: how to split a model over GPUs: every plan that can be, ranked, and why the others are not it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from .plan_report import report, short, unmeasured
from .plan_search import Bar, asked_space, fitting, space_of_gpus
from .planning import MODEL_HELP, add_gpu, add_json, add_layout, add_model, count_of, model_of, run
from .step import hardware_of

if TYPE_CHECKING:
    from ..planner.constants import Software
    from ..planner.hardware import Hardware
    from ..planner.search import Found, Plan
    from ..planner.transformer import Transformer

HELP = "the best plan for a model on so many GPUs: all that can be, ranked by time, and what killed the others"
EXAMPLES = f"""examples:
  python -m sim plan --model llama3-70b --gpus 64 --gpu h100
  python -m sim plan --model gpt3-175b --gpus 1024 --gpu a100 --global-batch 1536
  python -m sim plan --model llama3-70b --gpus 64 --gpu h100 --tp 8 --schedule 1f1b --emit megatron
  python -m sim plan --model llama3-8b --gpus 16 --machine dgx-a100 --what-if 'nic=2x|sequence=32k|gpus=32'

{MODEL_HELP}

Options of the split keep an axis to one value; without them every value that can be is
tried. Without --global-batch a step has about 4 million tokens.

exit status: 0, 2 for a wrong argument, or if no plan fits"""
SHOWN, SIMULATED, HALVINGS = 10, 200, 3
LOOKED_AT = 50_000  # of the best, for those that a program runs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_layout(parser)
    add_gpu(parser)
    group = parser.add_argument_group("plan")
    group.add_argument("--memory", metavar="BYTES", help="that a GPU may hold, like 70G (default: its own less 2 GB)")
    group.add_argument("--top", metavar="N", help=f"plans to print (default {SHOWN})")
    group.add_argument("--software", metavar="NAME", help="whose constants (default: what is usual on the GPU)")
    group.add_argument("--calibrate", metavar="LIST", help="like matmul=0.72,attention=0.5")
    group.add_argument("--emit", metavar="TARGET", help="flags of torchtitan, megatron, deepspeed or ringlab")
    group.add_argument("--what-if", action="append", metavar="CASES", help="like 'nic=2x|sequence=32k|gpus=2048'")
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    return run(args, work)


def work(args: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    from ..planner.advice import others, reasons, strategies
    from ..planner.constants import error_of
    from ..planner.search import simulated

    model, hardware, software = model_of(args), hardware_of(args), software_of(args)
    space, limit = asked_space(args, model), limit_of(args, hardware)
    top = count_of(args, "top")
    found = fitting(model, space, hardware, software, limit)
    best = best_plans(found, model, args.emit)
    with Bar("simulating") as bar:
        plans, seconds = simulated(model, best, hardware, software, bar)
    shown = plans[: SHOWN if top is None else max(1, top)]
    content: dict[str, Any] = {
        "model": model.name, "gpu": hardware.chip.name, "machine": hardware.machine, "gpus": space.gpus,
        "global_batch": space.base.global_batch, "software": software.name, "limit": limit or found.limit,
        "evaluated": found.evaluated, "seconds": found.seconds, "simulated_s": seconds,
        "simulated": sum(plan.simulated_s > 0 for plan in plans), "fit": int(found.fits.sum()),
        "agreement": max((abs(p.simulated_s / p.seconds - 1) for p in plans if p.simulated_s), default=0.0),
        "space": {name: [_plain(value) for value in values] for name, values in _axes(found).items()},
        "narrowed": [name for name, values in space.axes.items() if values != found.space.axes[name]],
        "rejected": _rejected(found),
        "plans": [as_dict(model, plan, hardware, software) for plan in plans],
        "pareto": _pareto(model, found, hardware, software, limit),
    }  # fmt: skip
    error = error_of(software, bool(model.experts))
    content["error"] = None if error is None else {**vars(error)}
    chosen = plans[0]
    ways, costs = strategies(found), others(found, chosen.layout)
    content["strategies"] = [_choice(found, way, chosen) for way in ways]
    content["others"] = [{**_choice(found, cost, chosen), "says": _says(cost, hardware, chosen)} for cost in costs]
    content["reasons"] = reasons(model, found, chosen.layout, hardware)
    text = report(model, found, hardware, software, shown, content)
    if args.emit:
        from ..planner.emit import emit

        content["emit"] = emit(args.emit, model, chosen.layout)
        text += f"\n\n# the first plan for {args.emit}\n{content['emit']}"
    if args.what_if:
        from .what_if import of_plans

        rows, table = of_plans(args, model, hardware, software, chosen)
        content["what_if"] = rows
        text += f"\n\n{table}"
    return text, content


def best_plans(found: Found, model: Transformer, target: str | None) -> list[Plan]:
    """The fastest that fit, of those that the target runs.

    Raises:
        ValueError: it runs none of them, and why not.
    """
    from ..planner.emit import refusal

    if not target:
        return [found.plan(number) for number in found.best(SIMULATED)]
    plans, why = [], ""
    for number in found.best(LOOKED_AT):
        plan = found.plan(number)
        why = refusal(target, model, plan.layout)
        plans += [] if why else [plan]
        if len(plans) == SIMULATED:
            break
    if not plans:
        raise ValueError(f"{target} {why}")
    return plans


def software_of(args: argparse.Namespace) -> Software:
    """The constants that the options name.

    Raises:
        ValueError: unknown ones.
    """
    from ..planner.constants import calibrated
    from ..planner.constants import software_of as find

    software = find(args.software or "", hardware_of(args).chip.name)
    return calibrated(software, args.calibrate) if args.calibrate else software


def limit_of(args: argparse.Namespace, hardware: Hardware) -> float:
    """Bytes that a GPU may hold; 0: the search decides.

    Raises:
        ValueError: no size, or more than the GPU has.
    """
    from ..units import parse_size

    size = parse_size(args.memory, "--memory") if getattr(args, "memory", None) else 0
    if size > hardware.chip.memory:
        raise ValueError(
            f"--memory {args.memory}: {hardware.chip.name} has {hardware.chip.memory / (1 << 30):.0f}G; use less, or a "
            "larger GPU"
        )
    return float(size)


def _pareto(
    model: Transformer, found: Found, hardware: Hardware, software: Software, limit: float
) -> list[dict[str, Any]]:
    """Plans than which none is at once faster, smaller and on fewer GPUs: of these GPUs, and of fewer by halves."""
    from ..planner.search import search
    from ..planner.space import narrow

    rows = [(found.space.gpus, found.plan(number)) for number in found.pareto()]
    gpus = found.space.gpus
    for _ in range(0 if found.space.dp else HALVINGS):
        if gpus % 2:
            break
        gpus //= 2
        fewer = search(model, space_of_gpus(narrow(found.space), model, gpus), hardware, software, limit)
        rows += [(gpus, fewer.plan(number)) for number in fewer.pareto()]
    return [
        {"gpus": count, "time_s": plan.seconds, "memory": plan.memory, "plan": short(plan.layout)}
        for count, plan in rows
    ]


def as_dict(model: Transformer, plan: Plan, hardware: Hardware, software: Software) -> dict[str, Any]:
    from ..planner.constants import error_of
    from ..planner.utilisation import model_flops, utilisation

    layout, error = plan.layout, error_of(software, bool(model.experts))
    axes = ("dp", "pp", "tp", "cp", "ep", "vpp", "microbatch", "schedule", "recompute", "zero", "sp", "overlap")
    return {
        **{name: getattr(layout, name) for name in axes},
        "offload": list(layout.offload), "microbatches": layout.microbatches, "global_batch": layout.samples,
        "gpus": layout.gpus, "time_s": plan.seconds, "simulated_s": plan.simulated_s or None, "memory": plan.memory,
        "tokens_per_s": layout.samples * model.sequence / plan.seconds,
        "mfu": utilisation(model_flops(model, layout), plan.seconds, layout, hardware),
        "error_percent": error.mape if error else None,
        "unmeasured": unmeasured(layout),
    }  # fmt: skip


def _choice(found: Found, choice: Any, best: Plan) -> dict[str, Any]:
    plan = found.plan(choice.number) if choice.number >= 0 else None
    return {
        "axis": choice.axis, "value": _plain(choice.value), "time_s": plan.seconds if plan else None,
        "least_memory": choice.least, "cost": choice.cost(best.seconds), "plan": short(plan.layout) if plan else "",
    }  # fmt: skip


def _says(choice: Any, hardware: Hardware, best: Plan) -> str:
    from ..planner.advice import in_words

    return f"{in_words(choice, hardware)}: {choice.cost(best.seconds)}"


def _rejected(found: Found) -> list[dict[str, Any]]:
    """By constraint, those of memory last."""
    import numpy as np

    rows = [{"constraint": one.constraint, "plans": one.plans, "example": one.example} for one in found.rejected]
    big = found.evaluated - int(found.fits.sum())
    if big:
        middle = float(np.median(found.sizes[~found.fits]))
        example = f"half of these need more than {middle / 1e9:.1f} GB, and a GPU may hold {found.limit / 1e9:.1f}"
        rows.append({"constraint": "memory", "plans": big, "example": example})
    return rows


def _axes(found: Found) -> dict[str, Any]:
    """The values that were tried."""
    import numpy as np

    numeric = {name: np.unique(found.values(name)).tolist() for name in ("dp", "vpp")}
    return {name: numeric.get(name, values) for name, values in found.space.axes.items()}


def _plain(value: Any) -> Any:
    return "+".join(value) or "none" if isinstance(value, tuple) else value
