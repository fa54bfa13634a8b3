"""``calibrate``: a machine from a benchmark's log."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..units import show_bytes

if TYPE_CHECKING:
    from ..calibration import Calibration
    from ..machine import Machine

HELP = "fit a machine's constants to logs of nccl-tests or of this project's benchmark"
EXAMPLES = """examples:
  all_reduce_perf -b 8 -e 8G -f 2 -g 8 > log.txt && python -m sim calibrate log.txt --out box.json
  python -m sim collective --machine box.json --size 1G
  python -m sim calibrate one_node.log two_nodes.log --nodes 2 --topology topo.txt
  python -m collectives bench --ranks 4 --json bench.json && python -m sim calibrate bench.json --out mine.json

One log is enough; what it does not determine is named, and stays as it is on the machine that its GPUs suggest.

exit status: 0, 2 if a file cannot be read"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE", help="what nccl-tests has printed, or JSON of collectives bench")
    add("--collective", metavar="NAME", help="of a log that does not say")
    add("--ranks", type=int, metavar="N", help="of a log that does not say")
    add("--nodes", type=int, metavar="N", help="of logs that do not say on which hosts they ran")
    add("--machine", metavar="NAME|FILE", help="the machine to start from (default: a preset with such GPUs)")
    add("--topology", metavar="FILE|NAME", help="nvidia-smi topo -m or a machine: warn where the log does not fit it")
    add("--gpu", default="", metavar="NAME", help="of a log that does not say")
    add("--rows", action="store_true", help="show every time and its prediction")
    add("--out", metavar="FILE", help="write the machine file, which every command takes with --machine")
    add("--json", nargs="?", const="-", metavar="FILE", help="write everything (without FILE: to stdout)")


def main(args: argparse.Namespace) -> int:
    from collectives.atomic import check_writable, write_text

    from ..calibration import disagreements
    from ..machine_file import to_dict
    from .output import write_json

    try:
        for option in ("out", "json"):
            if getattr(args, option) not in (None, "-"):
                check_writable(f"--{option}", getattr(args, option))
        for option in ("ranks", "nodes"):
            if getattr(args, option) is not None and getattr(args, option) < 1:
                raise ValueError(f"--{option} {getattr(args, option)}: give at least 1")
        found = calibrated(args)
        topology = _topology(args.topology, args.gpu or found.machine.gpu) if args.topology else None
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    warnings = disagreements(found.samples, topology) if topology else []
    if args.json != "-":
        print(report(found, warnings, args.rows))
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    fit = {"constants": [vars(c) for c in found.constants], "undetermined": list(found.undetermined)}
    fit["errors"] = dict(zip(("median", "max"), found.errors(), strict=True))
    fit["left_out"] = dict(zip(("median", "max"), found.errors(left_out=True), strict=True))
    machine = {**to_dict(found.machine), "fit": fit}
    if args.out:
        write_text(args.out, json.dumps(machine, indent=1) + "\n")
    content = {"machine": machine, "warnings": warnings, "notes": list(found.notes), "rows": rows(found)}
    write_json(args.json, content)
    return 0


def calibrated(args: argparse.Namespace) -> Calibration:
    """Read the files and fit.

    Raises:
        ValueError: a file that cannot be read (with the line), or files that do not belong together.
    """
    from collectives.readers.nccl_log import read_runs

    from ..calibration import samples_of, start_of
    from ..host_fit import fit_hosts
    from ..nccl_fit import fit_nccl
    from ..presets import find_machine

    runs, cores, host = [], 0, set()
    for name in args.files:
        try:
            found = read_runs(Path(name), args.collective)
        except OSError as error:
            raise ValueError(f"{name}: cannot be read ({error.strerror or error})") from None
        runs += found
        gloo = any("the backend is gloo" in run.notes for run in found)
        host.add(gloo)
        if gloo:
            counts = json.loads(Path(name).read_text(encoding="utf-8"))["environment"].get("cores")
            cores = max([cores, *(counts.values() if isinstance(counts, dict) else [])])
    if len(host) > 1:
        raise ValueError("logs of GPUs and of gloo's ranks are from two machines: calibrate each alone")
    samples, notes = samples_of(runs, args.nodes, args.ranks)
    notes += [doubt for run in runs for doubt in run.doubts]
    if host == {True}:
        return fit_hosts(samples, cores, notes)
    gpu = args.gpu or next((run.gpu for run in runs if run.gpu), "")
    start, note = start_of(gpu, max(s.ranks // s.nodes for s in samples))
    if args.machine:
        start, note = find_machine(args.machine, args.gpu), ""
    return fit_nccl(samples, start, [*notes, *([note] if note else [])])


def rows(found: Calibration) -> list[dict[str, Any]]:
    return [
        {"collective": s.collective, "algorithm": s.algorithm, "nodes": s.nodes, "ranks": s.ranks, "size": s.size,
         "time_s": s.time_s, "predicted_s": p, "left_out_s": left}
        for s, p, left in zip(found.samples, found.predicted, found.left_out, strict=True)
    ]  # fmt: skip


def report(found: Calibration, warnings: list[str], every: bool) -> str:
    """The numbers, for people."""
    machine = found.machine
    lines = [f"{machine.name} ({machine.kind}) {machine.source}", ""]
    lines.append(f"  {'constant':<28}{'value':>12}")
    for c in found.constants:
        lines.append(f"  {c.name:<28}{c.value:>12.4g} {c.unit:<5}{'' if c.known else 'not determined'}".rstrip())
    lines += ["", f"  {'error of the time':<28}{'median':>12}{'largest':>12}"]
    for name, left_out in (("fitted", False), ("each left out", True))[: len(found.samples)]:
        median, most = found.errors(left_out)
        lines.append(f"  {name:<28}{median:>12.1%}{most:>12.1%}")
    if every:
        titles = f"{'ranks':>6}{'size':>10}{'measured':>14}{'predicted':>14}{'error':>8}"
        lines += ["", f"  {'collective':<16}{'algorithm':<20}{titles}"]
        for s, p in zip(found.samples, found.predicted, strict=True):
            times = f"{s.time_s * 1e6:>11.1f} us{p * 1e6:>11.1f} us{p / s.time_s - 1:>+8.1%}"
            way = f"{s.collective:<16}{s.algorithm or 'NCCL':<20}"
            lines.append(f"  {way}{s.ranks:>6}{show_bytes(s.size):>10}{times}")
    for title, texts in (("not determined", found.undetermined), ("notes", found.notes)):
        if texts:
            lines += ["", f"  {title}", *(f"    {text}" for text in dict.fromkeys(texts))]
    return "\n".join(lines)


def _topology(name: str, gpu: str) -> Machine:
    """The machine to compare with; only of a matrix the log says which GPUs they are."""
    from ..presets import PRESETS, find_machine

    return find_machine(name, "" if name.partition(",")[0] in PRESETS else gpu)
