"""``overlay``: a measured timeline and a predicted one, laid over each other."""

from __future__ import annotations

import argparse
import sys

HELP = "lay a measured trace and a predicted one over each other"
EXAMPLES = """examples:
  python -m collectives bench --ranks 4 -b 4M -e 4M --algorithm ring --trace measured.json
  python -m sim collective --ranks 4 --size 4M --algorithm ring --machine laptop --trace predicted.json
  python -m sim overlay measured.json predicted.json --html overlay.html

exit status: 0, 2 for a file that cannot be read"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from ..draw import pictures

    parser.add_argument("measured", metavar="MEASURED", help="a trace of python -m collectives bench --trace")
    parser.add_argument("predicted", metavar="PREDICTED", help="a trace of python -m sim … --trace")
    parser.add_argument(
        "--operation", type=int, metavar="K", help="the K-th of the measured trace, from 0 (default: alike)"
    )
    parser.add_argument(
        "--json", nargs="?", const="-", metavar="FILE", help="write the numbers (without FILE: to stdout)"
    )
    pictures.add_arguments(parser)


def main(args: argparse.Namespace) -> int:
    from collectives.atomic import check_writable
    from collectives.readers.trace_file import read_trace

    from ..draw import pictures, terminal
    from ..overlay import alike, compare, operations, overlay
    from ..units import show_time
    from .output import write_json

    try:
        if args.json and args.json != "-":
            check_writable("--json", args.json)
        pictures.check(args)
        measured, predicted = operations(read_trace(args.measured)), operations(read_trace(args.predicted))[0]
        same = alike(measured, predicted)
        if args.operation is not None:
            if not 0 <= args.operation < len(measured):
                raise ValueError(f"--operation {args.operation}: {args.measured} has {len(measured)}, numbered from 0")
            chosen = measured[args.operation]
        else:
            chosen = (same or measured)[0]
        if chosen not in same:
            print("note: the two did not move the same bytes over the same links", file=sys.stderr)
        replay = overlay(chosen, predicted)
        pictures.draw(args, replay)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if args.json != "-":
        print(terminal.gantt(replay))
        print(f"\n{'operation':<48}{'measured':>12}{'predicted':>12}{'error':>9}")
        for operation in (chosen, *(other for other in same if other is not chosen)):
            numbers = compare(operation, predicted)
            print(
                f"{operation.name[:47]:<48}{show_time(operation.seconds):>12}{show_time(predicted.seconds):>12}"
                f"{numbers['error']:>+9.1%}"
            )
    write_json(args.json, dict(replay.facts))
    return 0
