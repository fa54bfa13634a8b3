"""``--what-if``: the same question with one thing changed, as a table."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .planning import layout_of, model_of

if TYPE_CHECKING:
    from ..planner.constants import Software
    from ..planner.hardware import Hardware
    from ..planner.search import Plan
    from ..planner.step import StepTime
    from ..planner.transformer import Transformer

HARDWARE = {"nic": "nic", "nvlink": "nvlink", "pcie": "host"}  # bytes a second, of one GPU
CHIP = {"hbm": "bandwidth", "memory": "memory"}
OPTIONS = ("gpus", "sequence", "global_batch", "microbatch", "layers", "hidden", "vocab", "dp", "tp", "pp", "cp", "ep")
KILO = {"k": 1 << 10, "m": 1 << 20}  # of a sequence: 32k tokens are 32,768


def cases(
    args: argparse.Namespace, model: Transformer, hardware: Hardware, now: dict[str, int]
) -> Iterator[tuple[str, argparse.Namespace, Hardware]]:
    """What is asked: its words, the options, and the hardware.

    Args:
        now: what options stand at, for ``gpus=2x``.

    Raises:
        ValueError: a case that is none, with those that are.
    """
    for text in [case.strip() for said in args.what_if for case in said.split("|") if case.strip()]:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        times = re.fullmatch(r"([0-9]*\.?[0-9]+)x", value.strip())
        known = [*HARDWARE, *CHIP, "flops", *(option.replace("_", "-") for option in OPTIONS)]
        if not equals or name not in {option.replace("-", "_") for option in known}:
            raise ValueError(f"--what-if {text}: write NAME=VALUE or NAME=2x, of {', '.join(known)}")
        factor = float(times[1]) if times else 0.0
        if times and not 1e-3 <= factor <= 1e3:
            raise ValueError(f"--what-if {text}: use a factor from 0.001x to 1000x")
        if name in OPTIONS:
            yield text, _with_option(args, name, value, factor, now), hardware
        else:
            yield text, args, _with_hardware(hardware, name, value, factor)


def _with_option(
    args: argparse.Namespace, name: str, value: str, factor: float, now: dict[str, int]
) -> argparse.Namespace:
    text = str(max(1, round(now[name] * factor))) if factor else value
    kilo = re.fullmatch(r"([0-9]+)([km])", text.lower()) if name == "sequence" else None
    changed: dict[str, Any] = {name: str(int(kilo[1]) * KILO[kilo[2]]) if kilo else text}
    if name == "gpus":
        changed["dp"] = None  # data parallelism takes up what there is
    return argparse.Namespace(**{**vars(args), **changed})


def _with_hardware(hardware: Hardware, name: str, value: str, factor: float) -> Hardware:
    from ..units import parse_bandwidth, parse_size

    chip = hardware.chip
    if name == "flops":
        if not factor:
            raise ValueError(f"--what-if flops={value}: write a factor, like flops=2x")
        return replace(hardware, chip=replace(chip, peak={kind: rate * factor for kind, rate in chip.peak.items()}))
    if name == "memory":
        size = round(chip.memory * factor) if factor else parse_size(value, "--what-if memory")
        return replace(hardware, chip=replace(chip, memory=size))
    old = chip.bandwidth if name == "hbm" else getattr(hardware, HARDWARE[name])
    new = old * factor if factor else parse_bandwidth(value, f"--what-if {name}")
    if name == "hbm":
        return replace(hardware, chip=replace(chip, bandwidth=new))
    faster: dict[str, Any] = {HARDWARE[name]: new}
    return replace(hardware, **faster)


def of_steps(
    args: argparse.Namespace, model: Transformer, hardware: Hardware, software: Software, now: dict[str, int]
) -> tuple[list[dict[str, Any]], str]:
    """One row a case, for a given split; a case that cannot be says why."""
    from ..planner.memory import fullest, ledgers
    from ..planner.step import step_time

    rows = []
    alone = argparse.Namespace(**{**vars(args), "what_if": []})
    for text, told, machine in [("as it is", alone, hardware), *cases(args, model, hardware, now)]:
        try:
            changed = model_of(told)
            layout, _ = layout_of(told, changed)
            step: StepTime = step_time(changed, layout, machine, software)
        except ValueError as error:
            rows.append({"case": text, "error": str(error)})
            continue
        stages = ledgers(changed, layout)
        tokens = layout.samples * changed.sequence
        rows.append(_row(text, changed, layout, machine, step.time_s, stages[fullest(stages)].total, tokens))
    return rows, _table(rows)


def of_plans(
    args: argparse.Namespace, model: Transformer, hardware: Hardware, software: Software, best: Plan
) -> tuple[list[dict[str, Any]], str]:
    """One row a case, each with its own best plan of those that most programs can run."""
    from ..planner.space import narrow
    from .plan import limit_of
    from .plan_report import short
    from .plan_search import asked_space, fitting

    layout = best.layout
    now = {name: getattr(layout, name) for name in ("dp", "tp", "pp", "cp", "ep", "microbatch")}
    now |= {"gpus": layout.gpus, "global_batch": layout.samples, "sequence": model.sequence}
    now |= {"layers": model.layers, "hidden": model.hidden, "vocab": model.vocab}
    rows: list[dict[str, Any]] = []
    alone = argparse.Namespace(**{**vars(args), "what_if": []})
    for text, told, machine in [("as it is", alone, hardware), *cases(args, model, hardware, now)]:
        try:
            changed, told = model_of(told), argparse.Namespace(**vars(told))
            if told.global_batch is None:  # the same tokens
                told.global_batch = str(max(1, layout.samples * model.sequence // changed.sequence))
            found = fitting(changed, narrow(asked_space(told, changed)), machine, software, limit_of(args, machine))
        except ValueError as error:
            rows.append({"case": text, "error": str(error)})
            continue
        plan = found.plan(found.best(1)[0])
        tokens = plan.layout.samples * changed.sequence
        row = _row(text, changed, plan.layout, machine, plan.seconds, plan.memory, tokens)
        rows.append({**row, "plan": short(plan.layout)})
    return rows, _table(rows)


def _row(
    text: str, model: Transformer, layout: Any, hardware: Hardware, seconds: float, memory: float, tokens: int
) -> dict[str, Any]:
    from ..planner.utilisation import model_flops, utilisation

    mfu = utilisation(model_flops(model, layout), seconds, layout, hardware)
    return {
        "case": text, "gpus": layout.gpus, "time_s": float(seconds), "tokens_per_s": tokens / seconds, "mfu": mfu,
        "memory": float(memory), "fits": bool(memory <= hardware.chip.memory),
    }  # fmt: skip


def _table(rows: list[dict[str, Any]]) -> str:
    """Beside the first row."""
    from ..units import show_count

    first = next((row for row in rows if "time_s" in row), {})
    lines = [f"{'what if':<22}{'step':>10}{'':>9}{'tokens/s':>11}{'':>9}{'MFU':>8}{'GB':>8}"]
    for row in rows:
        if "error" in row:
            lines.append(f"{row['case']:<22}{row['error']}")
            continue
        time, rate = row["time_s"] / first["time_s"] - 1, row["tokens_per_s"] / first["tokens_per_s"] - 1
        lines.append(
            f"{row['case']:<22}{row['time_s']:>8.4g} s{time:>+9.1%}{show_count(row['tokens_per_s']):>11}{rate:>+9.1%}"
            f"{row['mfu']:>8.1%}{row['memory'] / 1e9:>8.1f}"
            + (f"  {row.get('plan', '')}" if row["fits"] else "  too much")
        )
    return "\n".join(line.rstrip() for line in lines)
