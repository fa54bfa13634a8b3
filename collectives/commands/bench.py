"""``python -m collectives bench``: our algorithms beside the backend's own collective, in the manner of nccl-tests."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from typing import TYPE_CHECKING

from ..bench.against import check_sizes
from ..bench.arguments import HELP, add_arguments
from ..bench.nccl_settings import nccl_log
from ..bench.report import average_busbw
from ..bench.settings import Settings, settings_of
from ..launcher import place_of
from ..start import NotStarted, backend_for, check_nccl, on_ranks, print_launch, usual_ranks

CAPTURABLE = (2, 9, 6)  # from this NCCL on its operations can be captured in CUDA graphs

if TYPE_CHECKING:
    from ..bench.session import Outcome

__all__ = ["HELP", "add_arguments", "main"]


def main(args: argparse.Namespace) -> int:
    """Check the arguments, run, write the files; the exit status."""
    first = True
    try:
        if args.print_launch is not None:
            print_launch(args.print_launch, ["collectives", "bench"], args.nodes, args.ranks)
            return 0
        place = place_of(os.environ)
        size, local = (place.size, place.local_size) if place else (None, None)
        first = place is None or place.rank == 0
        settings = settings_of(args, size, local, first, 4 if place or args.ranks is not None else usual_ranks())
        if args.against is not None:
            check_sizes(args.against, settings.against, map(settings.row_bytes, settings.sizes()))
        backend = backend_for(settings.backend, local or settings.ranks, place)
        if backend == "nccl" and settings.graph is not False:
            check_nccl("--graph", CAPTURABLE, "use --no-graph")
        with nccl_log() if backend == "nccl" else contextlib.nullcontext():
            from ..bench import session  # here, so that the ranks, which are forked, need not

            outcome = on_ranks(
                session.run,
                settings,
                backend,
                ranks=settings.ranks,
                backend=backend,
                place=place,
                timeout=settings.timeout,
                batch=settings.batch,
            )
    except (ValueError, NotStarted) as error:
        if first:
            print(f"python -m collectives bench: error: {error}", file=sys.stderr)
        return error.status if isinstance(error, NotStarted) else 2
    if not first:
        return 1 if outcome.wrong else 0
    _write(args, outcome)
    return 1 if outcome.wrong or _is_slow(settings, outcome) else 0


def _is_slow(settings: Settings, outcome: Outcome) -> bool:
    return settings.least_busbw is not None and average_busbw(outcome.rows) < settings.least_busbw


def _write(args: argparse.Namespace, outcome: Outcome) -> None:
    from .. import span
    from ..bench import plot, report

    if args.json is not None:
        report.write_json(args.json, outcome.environment, outcome.rows, outcome.baselines)
    if args.csv is not None:
        report.write_csv(args.csv, outcome.rows)
    if args.plot is not None:
        plot.write_plot(args.plot, outcome.environment, outcome.rows, outcome.baselines)
    if args.trace is not None:
        span.write(args.trace, outcome.spans, outcome.names, outcome.environment)
