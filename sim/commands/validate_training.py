"""``validate training``: predicted beside published training steps."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..planner.accuracy import Predicted
    from ..planner.runs import LeftOut, Run

WORST = 8
TABLE = "published_steps.csv"


def work(args: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    from ..planner.accuracy import NOT_MODELLED, errors, grouped, left_out, peak_errors, predict, rankings
    from ..planner.constants import CALIBRATED

    runs, left = rows(args)
    if args.leave_one_out is not None:
        names = args.leave_one_out.split(",")
        for name in names:
            if name not in CALIBRATED:
                raise ValueError(f"--leave-one-out {name}: use {', '.join(CALIBRATED)}")
        predicted = left_out([run for run in runs if not run.simulated], names)
    else:
        predicted = predict(runs)
    by_source = grouped(predicted, lambda run: run.source)
    sets = [
        {
            "name": source,
            **_percent(errors(chosen)),
            "peak_memory": None if (peaks := peak_errors(chosen)) is None else _percent(peaks),
            "rankings": [asdict(one) for one in rankings(chosen)],
            "kind": "agreement with a simulator" if chosen[0].run.simulated else "measured",
            "software": sorted({one.run.software.name for one in chosen}),
            "parts": [
                {"name": name, **_percent(errors(part))} for name, part in grouped(chosen, _part).items()
            ],
        }
        for source, chosen in by_source.items()
    ]  # fmt: skip
    content = {
        "sets": sets,
        "rows": [_row(one) for one in predicted],
        "left_out": [asdict(one) for one in left],
        "not_modelled": list(NOT_MODELLED),
        "leave_one_out": args.leave_one_out or "",
    }
    return report(sets, predicted, left, args), content


def rows(args: argparse.Namespace) -> tuple[list[Run], list[LeftOut]]:
    """Of the file, or of the table that comes with the package; with other constants, if they are given.

    Raises:
        ValueError: the file cannot be read, or a software or constant is unknown.
    """
    from ..planner.constants import calibrated, software_of
    from ..planner.runs import read_runs

    try:
        if args.file:
            text = Path(args.file).read_text(encoding="utf-8-sig")
        else:
            text = (resources.files("sim.planner") / TABLE).read_text(encoding="utf-8")
        runs, left = read_runs(text)
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{args.file}: cannot be read ({error})") from None
    except ValueError as error:
        raise ValueError(f"{args.file}, {error}") from None
    if args.software:
        runs = [replace(run, software=software_of(args.software)) for run in runs]
    if args.calibrate:
        runs = [replace(run, software=calibrated(run.software, args.calibrate)) for run in runs]
    return runs, left


def _part(run: Run) -> str:
    return f"{run.hardware.chip.name} {run.layout.precision.name}" + ", experts" * bool(run.model.experts)


def _percent(found: Any) -> dict[str, Any]:
    return {name: value if name == "n" else round(value, 2) for name, value in asdict(found).items()}


def _row(one: Predicted) -> dict[str, Any]:
    run = one.run
    return {
        "line": run.line,
        "source": run.source,
        "model": run.name,
        "plan": run.text,
        "software": run.software.name,
        "measured_s": run.measured_s,
        "predicted_s": one.seconds,
        "error": one.error,
        "simulated": run.simulated,
        "measured_peak": run.measured_peak or None,
        "predicted_peak": one.peak or None,
    }


def report(
    sets: Sequence[dict[str, Any]], predicted: Sequence[Predicted], left: Sequence[LeftOut], args: argparse.Namespace
) -> str:
    from ..planner.accuracy import NOT_MODELLED

    lines = [f"{len(predicted)} published steps predicted, {len(left)} rows left out", ""]
    if args.leave_one_out:
        lines = [f"each model predicted with {args.leave_one_out} fitted to the other models of its source", *lines]
    if args.rows:
        lines.append(f"{'measured':>12}{'predicted':>12}{'error':>8}  model, plan")
        lines += [_line(one) for one in predicted] + [""]
    lines.append(f"{'error of the time':<58}{'rows':>6}{'mean':>8}{'median':>8}{'bias':>8}  software")
    for one in sets:
        software = "" if args.leave_one_out else "  " + ", ".join(one["software"])
        lines.append(_errors(_cut(one["name"], 57), one) + software)
        if one["kind"] != "measured":
            lines.append("    simulated by others: agreement, and no accuracy")
        if len(one["parts"]) > 1:
            lines += [_errors(f"    {part['name']}", part) for part in one["parts"]]
    ranked = [(one["name"], row) for one in sets if one["kind"] == "measured" for row in one["rankings"]]
    if ranked:
        lines += ["", "the plan ranked first, over the measured best; pairs 5 % apart in their order"]
        lines += [
            f"{row['cost']:>+7.1f} %{row['ordered']:>6.0f} %  {row['model']} on {row['gpus']:,}: {row['plans']} plans "
            f"({_cut(name, 40)})"
            for name, row in ranked
        ]
        lines.append(f"{sum(row['cost'] for _, row in ranked) / len(ranked):>+7.1f} %         mean over models")
    peaks = [(one["name"], one["peak_memory"]) for one in sets if one["peak_memory"]]
    if peaks:
        lines += ["", f"{'error of the peak memory in use':<58}"] + [
            _errors(_cut(name, 57), found) for name, found in peaks
        ]
    measured = sorted((one for one in predicted if not one.run.simulated), key=lambda one: -abs(one.error))
    if measured and not args.rows:
        lines += ["", "farthest off"] + [_line(one) for one in measured[:WORST]]
    if left:
        lines += ["", "left out"]
        reasons = Counter((_cut(one.source, 60), one.reason) for one in left)
        lines += [f"{n:>6}  {source}: {reason}" for (source, reason), n in reasons.most_common()]
    return "\n".join([*lines, "", "not modelled", *(f"  {what}" for what in NOT_MODELLED)])


def _errors(name: str, found: dict[str, Any]) -> str:
    return f"{name:<58}{found['n']:>6}{found['mape']:>7.1f}%{found['median']:>7.1f}%{found['bias']:>+7.1f}%"


def _line(one: Predicted) -> str:
    run = one.run
    return f"{run.measured_s:>10.3f} s{one.seconds:>10.3f} s{one.error:>+8.1%}  {run.name}, {run.text}"


def _cut(name: str, width: int) -> str:
    return name if len(name) <= width else name[: width - 1] + "…"
