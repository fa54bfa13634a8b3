"""``diff``: two files of ``bench --json``, and what has changed beyond noise."""

from __future__ import annotations

import argparse
import json
import sys

from ..bench.difference import MEASURES

HELP = "compare two files of bench --json: which rows are slower or faster beyond noise"
EXAMPLES = """a row's noise is the larger of iqr_us / time_us and |null - 1|; a change counts if it is beyond the
noise of both rows together, and beyond --tolerance. bench --cycles 5 makes the noise known best.

JSON: {"rows": [{collective, algorithm, bytes, dtype, redop, ranks, before, after, change, noise, verdict}, …],
"slower", "faster", "same": numbers of rows, "unlike": what the runs were not alike in}

exit status: 0, 1 if a row is slower (a regression), 2 for a wrong argument

examples:
  python -m collectives diff last-week.json today.json
  python -m collectives diff a.json b.json --by ratio     ours / native: machines or days that differ in speed"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", metavar="A.json", help="the earlier run")
    parser.add_argument("after", metavar="B.json", help="the later run")
    parser.add_argument("--by", choices=list(MEASURES), default="time", help="what to compare (default time)")
    parser.add_argument(
        "--tolerance", type=float, default=5.0, metavar="PERCENT", help="what counts as none in any case (default 5)"
    )
    parser.add_argument("--all", action="store_true", help="show also what has not changed")
    parser.add_argument("--json", metavar="FILE", help="write all rows and verdicts")


def main(args: argparse.Namespace) -> int:
    from ..atomic import check_writable, write_text
    from ..bench.difference import changes, read_run, unlike

    try:
        if args.json:
            check_writable("--json", args.json)
        if not args.tolerance >= 0:
            raise ValueError(f"--tolerance {args.tolerance:g}: use a number of percent from 0 on")
        before, after = read_run(args.before), read_run(args.after)
        found = changes(before, after, args.by, args.tolerance / 100)
        if not found:
            raise ValueError(
                f"{args.before} and {args.after} have no row in common (same collective, algorithm, bytes, type, "
                f"reduction and ranks, with a {args.by}): run bench with the same arguments"
            )
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    differences = unlike(before, after)
    for text in differences:
        print(f"# not alike: {text}")
    unit = "" if args.by == "ratio" else " (us)"
    print(
        f"{'collective':<15}{'algorithm':<24}{'bytes':>13}{f'before{unit}':>14}{f'after{unit}':>14}{'change':>9}{'noise':>8}"
    )
    for change in found:
        if args.all or change.verdict != "same":
            collective, algorithm, nbytes, *_ = change.key
            moved, noise = f"{100 * change.change:+.1f} %", f"{100 * change.noise:.0f} %"
            before_, after_ = f"{change.before:.4g}", f"{change.after:.4g}"
            print(
                f"{collective:<15}{algorithm:<24}{nbytes:>13}{before_:>14}{after_:>14}{moved:>9}{noise:>8}"
                f"  {change.verdict}"
            )
    counts = {word: sum(change.verdict == word for change in found) for word in ("slower", "faster", "same")}
    print("# " + ", ".join(f"{number} {word}" for word, number in counts.items()))
    if args.json:
        content = {"rows": [change.as_dict() for change in found], **counts, "unlike": differences}
        write_text(args.json, json.dumps(content, indent=1) + "\n")
    return 1 if counts["slower"] else 0
