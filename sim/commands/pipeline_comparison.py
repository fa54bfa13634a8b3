"""``pipeline --compare``: which schedule is fastest, of those whose activations fit."""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from typing import Any

from collectives.progress import Progress
from parallel.pipeline import PipelineSchedule, find, schedules
from parallel.pipeline.schedule import counted

from ..pipeline import Times, simulate
from ..units import show_time
from .output import write_json
from .pipeline import as_dict

MOST_CHUNKS = 8


def compare(args: argparse.Namespace, times: Times) -> int:
    """A table: first the schedules that fit into memory, then the others, each the fastest first."""
    if args.html or args.svg or args.trace:
        raise ValueError("--html, --svg and --trace draw one schedule: leave --compare away, or them")
    if args.memory is not None and not 0 < args.memory < math.inf:
        raise ValueError(f"--memory {args.memory:g}: use a number of microbatches above 0")
    candidates = [
        (schedule, chunks) for schedule in _named(args.compare) for chunks in _chunk_counts(schedule, args.chunks)
    ]
    budget = args.memory if args.memory is not None else float(min(args.stages, args.microbatches))
    rows: list[dict[str, Any]] = []  # not the runs: with many microbatches each is large
    with Progress(len(candidates), sys.stderr.isatty()) as progress:
        for schedule, chunks in candidates:
            row = as_dict(simulate(schedule, args.stages, args.microbatches, chunks, times))
            row["holds"] = max(row["peak_activations"])
            row["fits"] = row["holds"] <= budget * (1 + 1e-9)
            rows.append(row)
            progress.step()
    rows.sort(key=lambda row: (not row["fits"], row["step_time"], row["holds"]))
    if args.json != "-":
        print(_table(rows, budget, args))
    write_json(args.json, {"stages": args.stages, "microbatches": args.microbatches, "memory": budget, "rows": rows})
    return 0


def _named(text: str) -> list[PipelineSchedule]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise ValueError(f"--compare {text!r}: write all, or names like 1f1b,zbv")
    return schedules() if "all" in names else [find(name) for name in dict.fromkeys(names)]


def _chunk_counts(schedule: PipelineSchedule, most: int | None) -> list[int]:
    """As many as the schedule has; where that is open, 2, 4, 8, … and the most that is asked for."""
    if not schedule.flexible or schedule.chunks == 1:
        return [schedule.chunks]
    most = most or MOST_CHUNKS
    return [*(count for count in (2**i for i in range(1, most.bit_length())) if count < most), most]


def _table(rows: list[dict[str, Any]], budget: float, args: argparse.Namespace) -> str:
    lines = [
        f"{counted(args.stages, 'stage')}, {counted(args.microbatches, 'microbatch')}; a rank can hold "
        + counted(budget, "microbatch")
        + (" (as many as 1f1b needs)" if args.memory is None else ""),
        "",
        f"{'schedule':<16}{'chunks':>7}{'step':>12}{'makespan':>12}{'bubble':>9}{'holds':>9}{'messages':>10}  fits",
    ]
    for row in rows:
        lines.append(
            f"{row['schedule']:<16}{row['chunks']:>7}{show_time(row['step_time']):>12}{show_time(row['makespan']):>12}"
            f"{row['bubble_fraction']:>9.1%}{row['holds']:>9.4g}{row['messages']:>10}  {'yes' if row['fits'] else 'no'}"
        )
    times_listed = Counter(row["schedule"] for row in rows)

    def called(row: dict[str, Any]) -> str:
        name: str = row["schedule"]
        return f"{name} with {row['chunks']} chunks" if times_listed[name] > 1 else name

    lines.append("")
    best, fastest = rows[0], min(rows, key=lambda row: row["step_time"])
    if best["fits"]:
        lines.append(f"# the fastest that fits: {called(best)}, {show_time(best['step_time'])} a step")
    if not best["fits"] or fastest["step_time"] < best["step_time"]:
        lines.append(
            f"# the fastest of all: {called(fastest)}, {show_time(fastest['step_time'])} a step, "
            f"needs --memory {fastest['holds']:.4g}"
        )
    lines.append(
        "# step: from one training step to the next; without --sync ranks that end early begin the next one early"
    )
    return "\n".join(lines)
