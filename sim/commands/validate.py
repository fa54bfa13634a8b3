"""``validate``: what presets predict beside what others have measured and published."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..validation import Compared, Published

HELP = "compare predictions with published rows: collectives, and steps of training"
EXAMPLES = """examples:
  python -m sim validate training
  python -m sim validate training published.csv --rows
  python -m sim validate training published.csv --leave-one-out matmul,attention
  python -m sim validate training published.csv --software 2022 --calibrate matmul=0.72
  python -m sim validate collectives nccl_tests.csv
  python -m sim validate collectives nccl_tests.csv --rows
  python -m sim validate collectives mine.csv --machine fitted.json --json -

Collectives: the CSV has a header and the columns gpu, ranks, size_bytes, time_us; and, where known, system, nodes,
collective, busbw_GBps, algorithm, placement, note. Sizes: small below 1 MiB, middle, large from 256 MiB on. Rows for
which there is no preset are counted and left out.

Training: source, model (or layers, hidden, heads, vocab), seq, gpu, gpus, tp, pp, vpp, microbatch, globalbatch,
recompute, sequence_parallel, precision, iteration_s, iteration_is (measured, derived or simulated), notes (cp=2; ep=8).
Without a file, a table of published steps that comes with the package.

exit status: 0, 2 if the file cannot be read"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what", choices=("collectives", "training"), help="collectives: rows as nccl-tests prints them; training: steps"
    )
    parser.add_argument("file", nargs="?", metavar="CSV", help="the rows")
    parser.add_argument("--machine", metavar="NAME|FILE", help="predict all collectives on this machine")
    parser.add_argument("--rows", action="store_true", help="show every row")
    group = parser.add_argument_group("training")
    group.add_argument(
        "--software", metavar="NAME", help="for all rows: 2021, 2022, 2023, 2024, … (by the row's source)"
    )
    group.add_argument("--calibrate", metavar="LIST", help="other constants, like matmul=0.72,attention=0.5")
    group.add_argument(
        "--leave-one-out", nargs="?", const="matmul,attention", metavar="LIST",
        help="fit these constants to all models of a source but one, and predict that (matmul,attention)",
    )  # fmt: skip
    parser.add_argument(
        "--json", nargs="?", const="-", metavar="FILE", help="write everything (without FILE: to stdout)"
    )


def main(args: argparse.Namespace) -> int:
    from collectives.atomic import check_writable

    from ..presets import find_machine
    from ..validation import compare, read_published
    from .output import write_json

    if args.what == "training":
        from .planning import run
        from .validate_training import work

        return run(args, work)
    try:
        if not args.file:
            raise ValueError("validate collectives needs a file: the rows that nccl-tests printed, as a CSV")
        if args.json not in (None, "-"):
            check_writable("--json", args.json)
        machine = find_machine(args.machine) if args.machine else None
        try:
            rows = read_published(Path(args.file).read_text(encoding="utf-8-sig"))
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{args.file}: cannot be read ({error})") from None
        except ValueError as error:
            raise ValueError(f"{args.file}, {error}") from None
        compared, without = compare(rows, machine)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if args.json != "-":
        print(report(compared, without, args.rows))
    write_json(args.json, as_dict(compared, without))
    return 0


def groups(compared: Sequence[Compared]) -> list[tuple[str, list[Compared]]]:
    """Rows whose algorithm is known to be a ring; all rows; each system's."""
    found = [("known ring", [c for c in compared if c.row.known == "ring"]), ("all", list(compared))]
    return found + [
        (name, [c for c in compared if c.row.system == name]) for name in dict.fromkeys(c.row.system for c in compared)
    ]


def report(compared: Sequence[Compared], without: Sequence[tuple[Published, str]], rows: bool) -> str:
    from ..units import show_bytes
    from ..validation import REGIMES, summary
    from ..validation import lines as straight

    lines = [f"{len(compared)} rows predicted from presets, {len(without)} without a prediction", ""]
    if rows:
        lines.append(f"{'size':>10}{'measured':>12}{'predicted':>12}{'error':>8}  {'way':<18}{'machine':<14}system")
        lines += [
            f"{show_bytes(c.row.size):>10}{c.row.time_us:>9.1f} us{c.predicted_us:>9.1f} us{c.error:>+8.1%}  "
            f"{c.way:<18}{c.machine:<14}{c.row.system}"
            for c in compared
        ]
        lines.append("")
    lines.append(f"{'error of the time':<44}{'rows':>6}{'median':>9}{'p90':>9}{'bias':>9}")
    for name, chosen in groups(compared):
        for regime in REGIMES:
            found = summary([c for c in chosen if c.row.regime == regime])
            if found:
                errors = f"{found.median:>9.1%}{found.p90:>9.1%}{found.bias:>+9.1%}"
                lines.append(f"{f'{_cut(name)}, {regime}':<44}{found.n:>6}{errors}")
    fitted = straight(compared)
    if fitted:
        lines += ["", f"{'a line through the times of each':<34}{'rows':>6}{'α':>11}{'β, GB/s':>10}{'error':>8}"
                  f"{'largest size, GB/s of the bus':>32}"]  # fmt: skip
        lines += [
            f"{_cut(one.system):<34}{one.n:>6}{one.alpha_us:>8.1f} us{one.beta:>10.1f}{one.mape:>7.1f}%"
            f"{one.busbw:>14.1f}, predicted{one.predicted_busbw:>8.1f}"
            for one in fitted
        ]
    left_out = Counter((row.system, reason) for row, reason in without)
    if left_out:
        lines += ["", "without a prediction"]
        lines += [f"{n:>6} rows  {reason}: {system}" for (system, reason), n in left_out.items()]
    return "\n".join(lines)


def _cut(name: str) -> str:
    return name if len(name) <= 34 else name[:33] + "…"


def as_dict(compared: Sequence[Compared], without: Sequence[tuple[Published, str]]) -> dict[str, Any]:
    """Times in microseconds, errors as parts of the measured time."""
    from ..validation import REGIMES, summary
    from ..validation import lines as straight

    def regimes(chosen: Sequence[Compared]) -> dict[str, Any]:
        found = {regime: summary([c for c in chosen if c.row.regime == regime]) for regime in REGIMES}
        return {regime: asdict(errors) for regime, errors in found.items() if errors}

    def show(row: Published) -> dict[str, Any]:
        return {name: value for name, value in asdict(row).items() if name != "words"}

    return {
        "errors": {name: regimes(chosen) for name, chosen in groups(compared)},
        "rows": [
            {**show(c.row), "machine": c.machine, "way": c.way, "predicted_us": c.predicted_us, "error": c.error}
            for c in compared
        ],
        "lines": [asdict(one) for one in straight(compared)],
        "without": [{**show(row), "reason": reason} for row, reason in without],
    }
