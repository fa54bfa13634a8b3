"""Data parallel on real links, for BENCHMARKS.md: ``python benchmarks/data_parallel.py`` (Linux, root).

threads    replicas in threads beside replicas in processes, 2 ranks: on a link as fast as memory, and on a slow one
overlap    buckets that leave while the backward pass runs beside one bucket that leaves at its end, on a shaped link

Each is two hosts with a rank each; what is compared takes turns, ``--rounds`` times. Times are of a step (the slowest
rank's median in a run); every round is printed, and the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from collectives.readers.trace_file import read_trace
from parallel.overlap import overlap
from sim.hosts import Hosts

ONE_BUCKET = "1000"  # MiB: more than any of the models has


def compare(hosts: Hosts, folder: Path, model: str, steps: int, *options: str) -> dict[str, Any]:
    """``python -m parallel compare`` on all hosts: its rows, by strategy."""
    file = folder / "rows.json"
    status = hosts.torchrun(
        ["-m", "parallel", "compare", "--model", model, "--steps", str(steps), "--json", str(file), *options]
    )
    if status:
        sys.exit(status)
    return {row["strategy"]: row for row in json.loads(file.read_text())["rows"]}


def threads(folder: Path, rates: list[str], model: str, steps: int, rounds: int) -> None:
    names = ("single", "dp", "ddp", "ddp-int8")
    for rate in rates:
        found = []
        with Hosts(2, None if rate == "none" else rate) as hosts:
            for _ in range(rounds):
                found.append(compare(hosts, folder, model, steps, "--strategies", ",".join(names)))
        print(f"\nlink {rate}: ms a step, a round a column")
        for name in names:
            sent = found[0][name]["bytes_sent"] / 2**20
            print(f"{name:<9} {sent:6.2f} MiB  " + " ".join(f"{rows[name]['step_s'] * 1e3:8.1f}" for rows in found))
        print(f"ddp / dp  {median(rows['ddp']['step_s'] / rows['dp']['step_s'] for rows in found):.2f}")


def under_backward(folder: Path, rate: str, model: str, length: int, bucket_mb: str, steps: int, rounds: int) -> None:
    trace = folder / "trace.json"
    options = ("--length", str(length), "--strategies", "ddp", "--trace", str(trace))
    ratios = []
    with Hosts(2, rate) as hosts:
        for _ in range(rounds):
            seconds = {}
            for size in (bucket_mb, ONE_BUCKET):
                seconds[size] = compare(hosts, folder, model, steps, "--bucket-mb", size, *options)["ddp"]["step_s"]
                under_way, hidden = overlap(read_trace(trace).spans)
                print(
                    f"{model}, {rate}, buckets of {size} MiB: {seconds[size] * 1e3:.1f} ms a step; messages under way "
                    f"for {under_way * 1e3:.1f} ms, {hidden / under_way:.0%} of it under the backward pass",
                    flush=True,
                )
            ratios.append(seconds[bucket_mb] / seconds[ONE_BUCKET])
    print(f"step with buckets / step with one: {median(ratios):.3f} ({', '.join(f'{each:.3f}' for each in ratios)})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", default="threads,overlap")
    parser.add_argument("--rates", default="none,200mbit", help="of the links of threads (default none,200mbit)")
    parser.add_argument("--rate", default="1gbit", help="of the link of overlap (default 1gbit)")
    parser.add_argument("--model", default="25m", help="of overlap (default 25m)")
    parser.add_argument("--length", type=int, default=256, help="tokens of a row, of overlap (default 256)")
    parser.add_argument("--bucket-mb", default="8", help="of overlap (default 8)")
    parser.add_argument("--steps", type=int, default=9)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "threads" in args.what.split(","):
            threads(folder, args.rates.split(","), "small", args.steps, args.rounds)
        if "overlap" in args.what.split(","):
            under_backward(folder, args.rate, args.model, args.length, args.bucket_mb, args.steps, args.rounds)


if __name__ == "__main__":
    main()
