"""``prove``: run schedules on sets instead of numbers, and say which are right."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from ..errors import ScheduleError

HELP = "prove schedules right (or say what is wrong with them) without running them"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ranks", default="1-9", metavar="N|A-B|A,B", help="numbers of ranks (default 1-9)")
    parser.add_argument(
        "--algorithm",
        action="append",
        metavar="NAME",
        help="NAME[:option=value,…], FILE.py:name, module:name; a list with commas, or all",
    )
    parser.add_argument("--collective", "--op", metavar="NAME", help="only this collective")
    parser.add_argument("--json", metavar="FILE", help="write every row (bytes_per_rank in units of the whole buffer)")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = """examples:
  python -m collectives prove --ranks 1-33
  python -m collectives prove --algorithm my_ring.py:all_reduce --ranks 4

exit status: 0 if all are right, 1 at the first that is not, 2 for a wrong argument"""


def main(args: argparse.Namespace) -> int:
    from ..atomic import check_writable, write_text
    from ..bench.entrants import split_algorithms
    from ..proof import prove
    from ..registry import algorithms, find_all

    try:
        sizes = parse_ranks(args.ranks)
        if args.json:
            check_writable("--json", args.json)
        names = [name for text in args.algorithm or ["all"] for name in split_algorithms(text)]
        if "all" not in names:
            schedules = [s for name in names for s in find_all(name, args.collective)]
        else:
            schedules = algorithms(args.collective)
        if not schedules:
            raise ValueError(f"--collective {args.collective}: there is no algorithm for it")
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    rows: list[dict[str, Any]] = []
    refused = ""
    print(f"{'algorithm':<24}{'collective':<16}{'ranks':>7}  {'steps':>7}  {'messages':>9}  sent by a rank")
    for schedule in schedules:
        for size in sizes:
            row: dict[str, Any] = {"algorithm": str(schedule), "collective": schedule.collective, "ranks": size}
            try:
                proof = prove(schedule, size)
            except ValueError as error:
                rows.append({**row, "steps": None, "messages": None, "bytes_per_rank": None, "ok": False})
                rows[-1]["reason"] = str(error)
                refused = f"wrong{f' ({error.kind})' if isinstance(error, ScheduleError) else ''}: {error}"
                break
            rows.append({**row, "steps": proof.steps, "messages": proof.messages})
            rows[-1].update(bytes_per_rank=float(max(proof.sent.values())), ok=True, reason=None)
        if refused:
            break
        steps, messages = proof.steps, proof.messages
        most = max(proof.sent.values())
        print(f"{schedule!s:<24}{schedule.collective:<16}{args.ranks:>7}  {steps:>7}  {messages:>9}  {most}")
    if args.json:
        write_text(args.json, json.dumps({"rows": rows}, indent=1) + "\n")
    if refused:
        print(f"{schedule} {schedule.collective} on {size} ranks is {refused}")
        return 1
    print(f"# proofs: {len(rows)}, all right; steps, messages and shares are those with the most ranks, {sizes[-1]}")
    return 0


def parse_ranks(text: str) -> list[int]:
    """``4``, ``1-33`` or ``2,3,5-7``, ascending.

    Raises:
        ValueError: not of that form, or a number below 1.
    """
    sizes: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()) or int(first) < 1 or (dash and int(last) < int(first)):
            raise ValueError(f"--ranks {text!r}: write a number from 1 on, a range like 1-33, or a list like 2,3,5")
        sizes.update(range(int(first), int(last or first) + 1))
    return sorted(sizes)
