"""``collective --compare`` and ``--sweep``: which algorithm is best on this machine, and from which size on."""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from collectives.bench.entrants import split_algorithms
from collectives.progress import Progress
from collectives.registry import algorithms, find
from collectives.schedule import Schedule

from ..graph import node_of
from ..reading import read_first
from ..units import parse_size, show_bytes, show_time
from . import nccl
from .collective import LARGEST, run
from .output import write_json

if TYPE_CHECKING:
    from ..faults import Faults
    from ..graph import Network
    from ..machine import Machine


def compare(args: argparse.Namespace, machine: Machine, network: Network, faults: Faults) -> int:
    """A table of algorithms, the fastest first."""
    nbytes = parse_size(args.size, "--size")
    schedules, left_out = candidates(args, network)
    outcomes = []
    with Progress(len(schedules), sys.stderr.isatty()) as progress:
        for schedule in schedules:
            outcomes.append(run(schedule, network, nbytes, machine, faults, args.events))
            progress.step()
    outcomes.sort(key=lambda outcome: outcome.time_s)
    beside = None
    if machine.protocols and not faults and not args.order:
        with contextlib.suppress(ValueError):  # NCCL has no such collective
            beside = nccl.estimate(args, machine, network, nbytes)
    if args.json != "-":
        print(f"{args.collective} of {show_bytes(nbytes)} on {len(network.devices)} ranks of {machine.name}\n")
        print(f"{'algorithm':<26}{'time':>12} {'busbw':>12}{'× bound':>9}  bottleneck")
        for outcome in outcomes:
            busiest = outcome.links()[:1]
            bound = f"{outcome.time_s / outcome.lower_bound_s:.2f}" if outcome.lower_bound_s else "-"
            print(
                f"{outcome.schedule!s:<26}{show_time(outcome.time_s):>12} {f'{outcome.busbw:.4g} GB/s':>12}{bound:>9}  "
                + (f"{busiest[0][0]} ({busiest[0][2]:.0%})" if busiest else "")
            )
        for name, why in left_out:
            print(f"# left out: {name}: {why}")
        if beside:
            speed = f"{show_time(beside['time_s'])}, {beside['busbw']:.4g} GB/s"
            print(f"# NCCL itself, estimated: {speed} ({beside['chosen']})")
    rows = [
        {
            "algorithm": str(outcome.schedule),
            "time_s": outcome.time_s,
            "lower_bound_s": outcome.lower_bound_s,
            "algbw": outcome.algbw,
            "busbw": outcome.busbw,
            "bottleneck": outcome.links()[0][0] if outcome.links() else "",
            "simulated_s": outcome.simulated_s,
        }
        for outcome in outcomes
    ]
    content = {"collective": args.collective, "machine": machine.name, "ranks": len(network.devices), "size": nbytes}
    content |= {"rows": rows, "left_out": [{"algorithm": n, "why": w} for n, w in left_out], "nccl": beside}
    write_json(args.json, content)
    return 0


def sweep(args: argparse.Namespace, machine: Machine, network: Network, faults: Faults) -> int:
    """The best algorithm by size, and the sizes at which it changes."""
    sizes = _sizes(args.sweep)
    schedules, left_out = candidates(args, network)
    times: dict[tuple[int, Schedule], float] = {}

    def seconds(schedule: Schedule, nbytes: int) -> float:
        if (nbytes, schedule) not in times:
            times[nbytes, schedule] = run(schedule, network, nbytes, machine, faults, args.events).time_s
        return times[nbytes, schedule]

    best: list[Schedule] = []
    with Progress(len(sizes), sys.stderr.isatty()) as progress:
        for nbytes in sizes:
            best.append(min(schedules, key=lambda schedule: seconds(schedule, nbytes)))
            progress.step()
    changes = []
    for index in range(1, len(sizes)):
        if best[index] is not best[index - 1]:
            changes += _between(schedules, seconds, sizes[index - 1], sizes[index], best[index - 1], best[index])
    if args.json != "-":
        print(f"{args.collective} on {len(network.devices)} ranks of {machine.name}; * is the fastest\n")
        width = max(14, *(len(str(schedule)) + 2 for schedule in schedules))
        print(f"{'size':>10}" + "".join(f"{schedule!s:>{width}}" for schedule in schedules))
        for nbytes, fastest in zip(sizes, best, strict=True):
            cells = (show_time(seconds(s, nbytes)) + ("*" if s is fastest else " ") for s in schedules)
            print(f"{show_bytes(nbytes):>10}" + "".join(f"{cell:>{width}}" for cell in cells))
        print()
        for nbytes, before, after in changes:
            print(f"from {show_bytes(nbytes)} on {after} is faster than {before}")
        for name, why in left_out:
            print(f"# left out: {name}: {why}")
    rows = [
        {"size": nbytes, "best": str(fastest), "time_s": {str(s): seconds(s, nbytes) for s in schedules}}
        for nbytes, fastest in zip(sizes, best, strict=True)
    ]
    crossovers = [{"size": nbytes, "from": str(before), "to": str(after)} for nbytes, before, after in changes]
    content = {"collective": args.collective, "machine": machine.name, "ranks": len(network.devices)}
    write_json(args.json, {**content, "rows": rows, "crossovers": crossovers})
    return 0


def candidates(args: argparse.Namespace, network: Network) -> tuple[list[Schedule], list[tuple[str, str]]]:
    """The algorithms to compare, and which are left out and why."""
    size = len(network.devices)
    if args.compare and args.compare != "all":
        return [find(args.collective, name) for name in split_algorithms(args.compare)], []
    chosen, left_out = [], []
    homes = Counter(node_of(device) for device in network.devices)
    local = next(iter(homes.values()))
    for schedule in algorithms(args.collective):
        if "local" in schedule.option_names() and len(homes) > 1 and set(homes.values()) == {local}:
            schedule = schedule.with_options(local=local)  # the levels of this machine
        try:
            messages = schedule.channels * size * sum(len(step.sends) for step in read_first(schedule, size))
        except ValueError as error:
            left_out.append((str(schedule), str(error)))
            continue
        if messages > LARGEST and not schedule.symmetric:
            left_out.append((str(schedule), f"{messages} messages; ask for it by name"))
        else:
            chosen.append(schedule)
    if not chosen:
        raise ValueError(f"there is no algorithm for {args.collective} on {size} ranks")
    return chosen, left_out


def _between(
    schedules: Sequence[Schedule], seconds: object, low: int, high: int, before: Schedule, after: Schedule
) -> list[tuple[int, Schedule, Schedule]]:
    """Every change of the fastest between two sizes, each to one part in a hundred."""
    assert callable(seconds)
    if high - low <= max(1, low // 100):
        return [(high, before, after)]
    middle = math.isqrt(low * high)
    fastest = min(schedules, key=lambda schedule: seconds(schedule, middle))
    found = []
    if fastest is not before:
        found += _between(schedules, seconds, low, middle, before, fastest)
    if fastest is not after:
        found += _between(schedules, seconds, middle, high, fastest, after)
    return found


def _sizes(text: str) -> list[int]:
    first, dash, last = text.partition("-")
    low, high = parse_size(first, "--sweep"), parse_size(last if dash else "1G", "--sweep")
    if not 1 <= low <= high:
        raise ValueError(f"--sweep {text!r}: write two sizes, the smaller one first, like 1K-1G")
    sizes = []
    while low < high:
        sizes.append(low)
        low *= 4
    return [*sizes, high]
