"""``run``: a whole training run: FLOPs, days, GPU-hours, price, energy, checkpoints and failures."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from .planning import MODEL_HELP, add_gpu, add_json, add_layout, add_model, count_of, layout_of, model_of, split_text
from .planning import run as run_command
from .step import hardware_of

if TYPE_CHECKING:
    from ..planner.failures import Saving
    from ..planner.hardware import Hardware
    from ..planner.layout import Layout
    from ..planner.transformer import Transformer

HELP = "a whole training run: FLOPs, days, GPU-hours, price, energy, how often to save, goodput"
EXAMPLES = f"""examples:
  python -m sim run --model llama3.1-405b --gpus 16384 --tp 8 --pp 16 --sp --zero 1 --gpu h100 --tokens 15.6T \\
      --global-batch 2048 --gpu-hour 2.5
  python -m sim run --model llama3-70b --gpus 64 --gpu h100 --tokens 1.4T --mtbf-gpu-hours 50000
  python -m sim run --parameters 100B --tokens 1T --gpus 1024 --gpu a100 --mfu 0.45

{MODEL_HELP}

Without a split the best plan that most programs can run is searched for; with --mfu the
step is not modelled at all. Energy is that of the GPUs at their rated power.

exit status: 0, 2 for a wrong argument"""
SPLITS = ("dp", "tp", "pp", "cp", "ep", "vpp", "zero", "microbatch")
SEEDS = 20
LEAST = 1e-3  # goodput below which a run does not get on
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the best interval, to see that it is


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_layout(parser)
    add_gpu(parser)
    group = parser.add_argument_group("run")
    group.add_argument("--tokens", metavar="N", help="to train on, like 15T (default: compute-optimal, 20 a parameter)")
    group.add_argument("--mfu", metavar="SHARE", help="in place of a modelled step, like 0.45")
    group.add_argument("--gpu-hour", metavar="PRICE", help="of one GPU-hour (default 2.5)")
    group.add_argument("--mtbf-gpu-hours", metavar="N", help="that a GPU runs between failures (default 50000)")
    group.add_argument("--checkpoint-bandwidth", metavar="GB/s", help="of the job to storage (default 1 a node)")
    group.add_argument("--restart", metavar="TIME", help="after a failure (default 600s)")
    group.add_argument("--interval", metavar="TIME", help="of training between checkpoints (default: the best)")
    group.add_argument("--software", metavar="NAME", help="whose constants (default: what is usual on the GPU)")
    group.add_argument("--calibrate", metavar="LIST", help="like matmul=0.72,attention=0.5")
    group.add_argument("--seed", metavar="N", help="of the simulated failures (default 0)")
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    return run_command(args, work)


def work(args: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    from ..planner.campaign import bill, kaplan_split, optimal_split, optimal_tokens
    from ..planner.failures import simulated_goodput
    from ..planner.flops import six_nd
    from ..planner.parameters import active, total

    model, hardware = model_of(args), hardware_of(args)
    tokens, gpus, seed = count_of(args, "tokens"), count_of(args, "gpus"), count_of(args, "seed") or 0
    if tokens == 0:
        raise ValueError("--tokens 0: use a number from 1 on, like 15T")
    tokens = tokens or round(optimal_tokens(active(model)))
    rate, layout, error = _rate(args, model, hardware)
    gpus = layout.gpus if layout else gpus or 1
    saving = _saving(args, model, hardware, layout, gpus)
    interval = _time(args, "interval") or saving.daly
    if saving.goodput(interval) < LEAST:
        fix = f"use {saving.daly:.3g}s" if args.interval and saving.goodput(saving.daly) >= LEAST else "use fewer GPUs"
        raise ValueError(
            f"with a failure every {saving.mtbf:.3g} s, {saving.write:.3g} s to save and {saving.restart:.3g} s to "
            f"restart hardly an interval of {interval:.3g} s ends: {fix}"
        )
    flop, seconds, goodput = six_nd(model, tokens), tokens / rate, saving.goodput(interval)
    trials = []
    for factor in FACTORS:
        if saving.goodput(interval * factor) < LEAST:
            continue
        found = [simulated_goodput(saving, seconds, interval * factor, seed + number) for number in range(SEEDS)]
        mean = sum(share for share, _ in found) / SEEDS
        trials.append({"interval_s": interval * factor, "simulated": mean, "closed": saving.goodput(interval * factor)})
    cost = bill(seconds, goodput, gpus, _number(args, "gpu_hour", 2.5), hardware.chip.watts)
    best_n, best_d = optimal_split(flop)
    old_n, old_d = kaplan_split(flop)
    content: dict[str, Any] = {
        "model": model.name, "gpu": hardware.chip.name, "gpus": gpus, "parameters": total(model),
        "active_parameters": active(model), "tokens": tokens, "flop": flop, "tokens_per_s": rate,
        "plan": split_text(layout) if layout else f"MFU {args.mfu}", "error": error, **vars(cost),
        "checkpoint": {
            "bytes": saving.write * _bandwidth(args, hardware, gpus), "write_s": saving.write,
            "mtbf_s": saving.mtbf, "restart_s": saving.restart, "interval_s": interval, "young_s": saving.young,
            "daly_s": saving.daly, "trials": trials,
        },
        "goodput": goodput, "failures": cost.days * 86400 / saving.mtbf,
        "optimal": {
            "tokens": optimal_tokens(active(model)), "per_parameter": tokens / active(model),
            "parameters_for_this": best_n, "tokens_for_this": best_d, "kaplan": {"parameters": old_n, "tokens": old_d},
        },
    }  # fmt: skip
    return report(model, content), content


def _rate(args: argparse.Namespace, model: Transformer, hardware: Hardware) -> tuple[float, Layout | None, Any]:
    """Tokens a second without failures, the split, and the error of its regime."""
    from ..planner.constants import error_of
    from ..planner.flops import six_nd
    from ..planner.space import narrow
    from ..planner.step import step_time
    from .plan import software_of
    from .plan_search import asked_space, fitting

    if args.mfu is not None:
        share, gpus = _number(args, "mfu", 0.0), count_of(args, "gpus") or 1
        if not 0 < share <= 1:
            raise ValueError(f"--mfu {args.mfu}: use a share of the peak from 0 to 1, like 0.45")
        return gpus * hardware.chip.speed("bf16") * share / six_nd(model, 1), None, None
    software = software_of(args)
    error = error_of(software, bool(model.experts))
    if any(getattr(args, name) is not None for name in SPLITS):
        layout, _ = layout_of(args, model)
        seconds = float(step_time(model, layout, hardware, software).time_s)
    else:
        found = fitting(model, narrow(asked_space(args, model)), hardware, software, 0.0)
        plan = found.plan(found.best(1)[0])
        layout, seconds = plan.layout, plan.seconds
    return layout.samples * model.sequence / seconds, layout, vars(error) if error else None


def _saving(
    args: argparse.Namespace, model: Transformer, hardware: Hardware, layout: Layout | None, gpus: int
) -> Saving:
    """A checkpoint holds parameters and the optimizer's states."""
    from ..planner.campaign import saving_of
    from ..planner.layout import Layout as Any_Layout
    from ..planner.parameters import total

    state = (layout or Any_Layout()).precision.state
    nbytes = total(model) * (state.parameters + state.optimizer)
    hours, restart = _number(args, "mtbf_gpu_hours", 50_000.0), _time(args, "restart")
    if not 1e-3 <= hours <= 1e12:
        raise ValueError(f"--mtbf-gpu-hours {args.mtbf_gpu_hours}: use hours from 0.001 to 1e12, like 50000")
    return saving_of(gpus, hours, nbytes, _bandwidth(args, hardware, gpus), 600.0 if restart is None else restart)


def _bandwidth(args: argparse.Namespace, hardware: Hardware, gpus: int) -> float:
    from ..units import parse_bandwidth

    if args.checkpoint_bandwidth:
        return parse_bandwidth(args.checkpoint_bandwidth, "--checkpoint-bandwidth")
    return 1e9 * -(-gpus // hardware.local)


def _time(args: argparse.Namespace, name: str) -> float | None:
    from ..units import parse_time

    text = getattr(args, name)
    return None if text is None else parse_time(text, f"--{name}")


def _number(args: argparse.Namespace, name: str, default: float) -> float:
    """Raises:
    ValueError: no number from 0 on.
    """
    text = getattr(args, name)
    try:
        value = default if text is None else float(text.rstrip("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1e15:
        raise ValueError(f"--{name.replace('_', '-')} {text}: write a number like {default or 0.45:g}")
    return value


def report(model: Transformer, content: dict[str, Any]) -> str:
    """For people."""
    from ..units import show_count, show_time
    from .step import error_text

    saving, optimal = content["checkpoint"], content["optimal"]
    lines = [
        f"{model.name} on {content['tokens']:.4g} tokens, {content['gpus']:,} {content['gpu']}: {content['plan']}",
        "",
        f"  {'FLOPs':<14}{content['flop']:>14.3e}   6·N·D, N = {show_count(content['active_parameters'])}",
        f"  {'tokens':<14}{show_count(content['tokens_per_s']) + '/s':>14}   {error_text(content['error'])}",
        f"  {'days':<14}{content['days']:>14,.1f}   {content['days_without_failures']:,.1f} without failures",
        f"  {'GPU-hours':<14}{content['gpu_hours']:>14,.0f}",
        f"  {'price':<14}{content['price']:>14,.0f}",
        f"  {'energy':<14}{content['energy_kwh'] / 1000:>10,.1f} MWh   of the GPUs alone, at rated power",
        "",
        f"  {'checkpoint':<14}{saving['bytes'] / 1e9:>11,.0f} GB   written in {show_time(saving['write_s'])}",
        f"  {'failures':<14}{content['failures']:>14,.1f}   one in {saving['mtbf_s'] / 3600:,.1f} h, "
        f"{show_time(saving['restart_s'])} to restart",
        f"  {'interval':<14}{show_time(saving['interval_s']):>14}   Young {show_time(saving['young_s'])}, "
        f"Daly {show_time(saving['daly_s'])}",
        f"  {'goodput':<14}{content['goodput']:>14.2%}   {_trials(saving['trials'])}",
        "",
        f"  compute-optimal: {show_count(optimal['tokens'])} tokens, 20 a parameter (this run: "
        f"{optimal['per_parameter']:.1f}); these FLOPs suit",
        f"  {show_count(optimal['parameters_for_this'])} parameters on {show_count(optimal['tokens_for_this'])} tokens "
        f"(Hoffmann et al. 2022), or {show_count(optimal['kaplan']['parameters'])} on "
        f"{show_count(optimal['kaplan']['tokens'])} (Kaplan et al. 2020)",
    ]
    return "\n".join(lines)


def _trials(trials: list[dict[str, Any]]) -> str:
    shown = [f"{row['simulated']:.2%} at {row['interval_s'] / 60:,.0f} min" for row in trials]
    return "simulated: " + ", ".join(shown)
