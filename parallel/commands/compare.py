"""``compare``: one model, trained with every strategy, in one table."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from ..strategies import STRATEGIES, choose

if TYPE_CHECKING:
    from ..comparison import Outcome
    from ..expectations import Job
    from ..strategies import Strategy

HELP = "train one model with every strategy: loss, time, bytes sent, bytes held, each beside its closed form"
EXAMPLES = (
    """examples:
  python -m parallel compare --model small --ranks 4
  python -m parallel compare --strategies dp,ddp --ranks 2
  python -m parallel compare --strategies ddp --bucket-mb 0.5 --trace ddp.json     for ui.perfetto.dev
  torchrun --nproc-per-node 4 -m parallel compare --model 25m --json rows.json

strategies:
"""
    + "\n".join(f"  {strategy.name:<20} {strategy.does}" for strategy in STRATEGIES.values())
    + """

exit status: 0, 1 if a rank failed or losses differ where nothing is rounded, 2 for a wrong argument"""
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--model", default="small", metavar="SIZE", help="tiny, small or 25m (default small)")
    add("--ranks", type=int, metavar="N", help="processes to start (default 4); under torchrun, those that it started")
    add("--strategies", default="all", metavar="A,B", help="some of those below (default all that the ranks allow)")
    add("--steps", type=int, default=5, metavar="N", help="of training, each on the same batch (default 5)")
    add("--batch", type=int, metavar="ROWS", help="of all ranks together (default 2 a rank)")
    add("--length", type=int, default=64, metavar="TOKENS", help="of a row (default 64)")
    add("--seed", type=int, default=0, metavar="N", help="of parameters and tokens (default 0)")
    add("--bucket-mb", type=float, default=25, metavar="MIB", help="of gradients that travel together (default 25)")
    add("--json", metavar="FILE", help="write environment and rows")
    add("--trace", metavar="FILE", help="of one strategy: a Chrome trace of one more step, with every message")
    add("--timeout", type=float, default=3600.0, metavar="SECONDS", help="for the whole run (default 3600)")


def main(args: argparse.Namespace) -> int:
    from collectives.launcher import place_of
    from collectives.start import NotStarted, on_ranks

    first = True
    try:
        place = place_of(os.environ)
        first = place is None or place.rank == 0
        job, strategies, left = _checked(args, place.size if place else None)
        for refusal in left if first else ():
            print(f"# left out: {refusal}", flush=True)
        from .. import comparison  # here, so that the ranks, which are forked, need not

        outcome = on_ranks(
            comparison.run, job, strategies, ranks=job.ranks, backend="gloo", place=place, timeout=args.timeout
        )
    except (ValueError, NotStarted) as error:
        if first:
            print(f"python -m parallel compare: error: {error}", file=sys.stderr)
        return error.status if isinstance(error, NotStarted) else 2
    return _finish(args, outcome)


def _checked(args: argparse.Namespace, launched_ranks: int | None) -> tuple[Job, list[Strategy], list[str]]:
    """The job and the strategies that the arguments describe, and why some were left out.

    Raises:
        ValueError: an argument that makes no sense; nothing has been started.
    """
    from collectives.atomic import check_writable

    from ..expectations import Job
    from ..model import SIZES

    ranks = launched_ranks or (4 if args.ranks is None else args.ranks)
    if args.ranks not in (None, ranks):
        raise ValueError(f"--ranks {args.ranks}: {ranks} were launched; leave --ranks out")
    if ranks < 1:
        raise ValueError(f"--ranks {ranks}: use at least 1")
    if args.model not in SIZES:
        raise ValueError(f"--model {args.model}: there is no such size; use {', '.join(SIZES)}")
    config, batch = SIZES[args.model], 2 * ranks if args.batch is None else args.batch
    if args.steps < 1:
        raise ValueError(f"--steps {args.steps}: use at least 1")
    if batch < 1 or batch % ranks:
        near = " or ".join(str(rows) for rows in (batch // ranks * ranks, -(-batch // ranks) * ranks) if rows > 0)
        raise ValueError(f"--batch {batch}: {ranks} ranks cannot share it evenly; use {near or ranks}")
    if not 1 <= args.length <= config.positions:
        raise ValueError(
            f"--length {args.length}: the model {args.model} has places for 1 to {config.positions} tokens"
        )
    if not 0 <= args.bucket_mb < float("inf"):
        raise ValueError(f"--bucket-mb {args.bucket_mb:g}: use MiB of at least 0")
    if not 0 <= args.seed < 2**63:
        raise ValueError(f"--seed {args.seed}: use a number from 0 to 2**63 - 1")
    if not args.timeout > 0:
        raise ValueError(f"--timeout {args.timeout:g}: use a number of seconds above 0")
    strategies, left = choose(args.strategies, ranks)
    if args.trace and (len(strategies) != 1 or strategies[0].alone or strategies[0].copies > 1):
        raise ValueError(
            f"--trace {args.trace}: it shows one strategy whose ranks are one group; add for instance --strategies ddp"
        )
    for option, path in (("--json", args.json), ("--trace", args.trace)):
        if path:
            check_writable(option, path)
    trace = args.trace is not None
    job = Job(args.model, config, ranks, batch, args.length, args.steps, args.seed, args.bucket_mb, trace)
    return job, strategies, left


def _finish(args: argparse.Namespace, outcome: Outcome) -> int:
    from collectives import span

    from .. import table

    if not outcome.rows:  # rank 0 has them
        return 0
    if args.json:
        table.write_json(args.json, outcome.environment, outcome.rows)
    if args.trace:
        span.write(args.trace, outcome.spans, metadata=outcome.environment)
    return 0 if table.spread(outcome.rows) <= table.SAME else 1
