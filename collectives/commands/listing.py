"""``list``: the algorithms that there are."""

from __future__ import annotations

import argparse
import inspect
import json
import sys

HELP = "list the algorithms: what each does, what it costs, which options it takes"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--collective", "--op", metavar="NAME", help="only this collective")
    parser.add_argument("--json", metavar="FILE", help="write the list")
    parser.epilog = (
        "n ranks, S bytes, k chunks, log2n = ceil(log2 n); alpha s a message, beta s a byte, gamma s a byte added"
    )


def main(args: argparse.Namespace) -> int:
    from ..atomic import check_writable, write_text
    from ..contract import CONTRACTS, contract_of
    from ..registry import algorithms
    from ..schedule import Schedule

    def about(schedule: Schedule) -> tuple[str, str]:
        lines = inspect.cleandoc(schedule.programs[0].__doc__ or "").splitlines()
        cost = next((line.removeprefix("Cost: ") for line in lines if line.startswith("Cost: ")), "")
        return (lines[0] if lines else ""), cost

    try:
        if args.json:
            check_writable("--json", args.json)
        wanted = [contract_of(args.collective)] if args.collective else list(CONTRACTS.values())
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    rows: list[dict[str, object]] = []
    for contract in wanted:
        print(f"\n{contract.name}" if rows else contract.name)
        for schedule in algorithms(contract.name):
            does, cost = about(schedule)
            options = schedule.option_names()
            rows.append(
                {
                    "algorithm": schedule.name,
                    "collective": contract.name,
                    "does": does,
                    "cost": cost,
                    "options": options,
                }
            )
            print(f"  {schedule.name:<20} {cost}")
            print(f"  {'':<20} {does}" + (f" Options: {', '.join(options)}." if options else ""))
    print("\n# n ranks, S bytes, k chunks, log2n = ceil(log2 n). Your own: --algorithm FILE.py:name, in every command.")
    if args.json:
        write_text(args.json, json.dumps({"rows": rows}, indent=1) + "\n")
    return 0
