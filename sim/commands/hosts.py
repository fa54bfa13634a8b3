"""``hosts``: run a torchrun job on several hosts that are made on this machine."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from ..hosts import Hosts, Unavailable
from ..units import parse_size

HELP = "run a torchrun job on several hosts made on this machine, joined by slow links (Linux, root)"

EXAMPLES = """examples:
  python -m sim hosts -- -m collectives bench -b 1M -e 8M
  python -m sim hosts --hosts 2 --ranks-per-host 2 --rate 1gbit -- -m collectives bench --algorithm hierarchical:local=2
  python -m sim hosts --hosts 2 --ranks-per-host 2 --links 2 -- -m collectives bench -b 8M -e 8M
  python -m sim hosts --hosts 2 --rate none -- train.py --steps 10

What follows -- is what would follow torchrun. A host is a network namespace with a hostname and processes of its own;
its port sends at the rate, headers included, of which at most 0.956 are data. With --links 2 it has two such ports, and
each rank uses one of them: bench then makes a ring for each (--order auto, the default); --order natural is one ring.
All hosts share this machine's CPUs. Nothing of the machine's own network is touched, and nothing stays.

exit status: 0, that of the first host's torchrun that failed (torchrun's own is 1 when a rank fails), 1 if time is up,
2 for a wrong argument or if this system cannot make hosts"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--hosts", type=int, default=4, metavar="H", help="how many (default 4)")
    add("--ranks-per-host", type=int, default=1, metavar="R", help="processes on each (default 1)")
    add("--rate", default="200mbit", metavar="RATE", help="at which each host sends: 200mbit (default), 1gbit, 25MB/s; "
        "none: as fast as the CPUs can")  # fmt: skip
    add("--links", type=int, default=1, metavar="N", help="of each host, each with the rate to itself; its ranks are "
        "shared out to them, in order (default 1)")  # fmt: skip
    add("--burst", metavar="SIZE", help="bytes that may leave at once after a pause (default 0.5 ms at the rate, "
        "at least 4K)")  # fmt: skip
    add("--timeout", type=float, metavar="SECONDS", help="for the whole run (default: none)")
    add("args", nargs=argparse.REMAINDER, metavar="-- ARGS", help="what would follow torchrun: a script or -m module, "
        "and its arguments")  # fmt: skip


def main(args: argparse.Namespace) -> int:
    # as Ctrl-C: leave through every `with`, so that the hosts are gone when this process is
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        if args.ranks_per_host < 1:
            raise ValueError(f"--ranks-per-host {args.ranks_per_host}: start at least 1")
        if args.timeout is not None and not args.timeout > 0:
            raise ValueError(f"--timeout {args.timeout:g}: use a number of seconds above 0")
        job = torchrun_args(args.args)
        burst = None if args.burst is None else parse_size(args.burst, "burst")
        rate = None if args.rate == "none" else args.rate
        with Hosts(args.hosts, rate, burst, args.links) as hosts:
            return hosts.torchrun(job, args.ranks_per_host, args.timeout)
    except (ValueError, Unavailable) as error:
        print(f"python -m sim hosts: error: {error}", file=sys.stderr)
        return 2
    except TimeoutError as error:
        print(f"python -m sim hosts: error: {error}; raise --timeout if that is too short", file=sys.stderr)
        return 1


def torchrun_args(words: list[str]) -> list[str]:
    """What follows ``--``, without a leading ``python``, which torchrun would take for a script.

    Raises:
        ValueError: nothing is left.
    """
    words = words[1:] if words[:1] == ["--"] else words
    words = words[1:] if words and Path(words[0]).name in ("python", "python3", "torchrun") else words
    if not words:
        raise ValueError("nothing to run: write what would follow torchrun after --, like -- -m collectives bench")
    return words
