"""``python -m collectives bench``: our algorithms beside the backend's own collective, in the manner of nccl-tests."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
from typing import TYPE_CHECKING

from . import launch
from .contract import CONTRACTS
from .settings import MODES, REDOPS, SCHEDULERS, Settings, parse_dtype, parse_size, settings_of

if TYPE_CHECKING:
    from .session import Outcome

HELP = "time our collectives beside the backend's own, and check every element of their results"

_DESCRIPTION = f"""{HELP[0].upper() + HELP[1:]}.

For every size, all chosen algorithms and the backend's own collective work on the same tensors in one run. They take
turns in rounds, the order changing; `ratio` is ours / native in time (the median of the rounds' ratios, below 1 is
faster) and `null` is native / native, the noise of this run. Flags and columns are those of nccl-tests, where one
group of four columns is ours and the other native, instead of out-of-place and in-place. One flag differs: the
reduction is -o/--redop, because --op is the collective. Sizes are binary and of the whole buffer, bandwidths decimal:
algbw = size / time, busbw = algbw x the collective's factor.

Timing data are zeros. The check is a pass of its own, on data that differ by rank and position and whose result is
known exactly; every element of every rank is compared, in blocks, so that beside the tensors it needs at most
5 * 2**16 * itemsize + 128 * 8191 bytes. Exit status: 0, 1 if anything was wrong, 2 for a wrong argument.
"""

_EXAMPLES = """examples:
  python -m collectives bench                                          all_reduce on 4 ranks: ring and auto
  python -m collectives bench --ranks 2 -b 1M -e 64M -f 2 --algorithm ring,ring:channels=2
  python -m collectives bench --collective all_gather --algorithm all --json all_gather.json
  python -m collectives bench --algorithm mine.py:all_reduce -b 64K -e 64K --trace mine.trace.json
  python -m collectives bench -d bfloat16 -o avg --mode blocking --plot latency.svg
  torchrun --nproc-per-node 4 -m collectives bench -b 8 -e 128M -f 2   one node or several, as torchrun is told
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags; as in nccl-tests where it has them."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description, parser.epilog = _DESCRIPTION, _EXAMPLES
    add = parser.add_argument
    add("--ranks", type=int, metavar="N", help="processes to start (default 4); under torchrun, those that it started")
    add("--backend", choices=("gloo", "nccl"), help="default: nccl where every rank has a GPU of its own, else gloo")
    add("--collective", "--op", choices=list(CONTRACTS), default="all_reduce", metavar="NAME",
        help=f"{', '.join(CONTRACTS)} (default all_reduce)")  # fmt: skip
    add("--algorithm", metavar="A,B", help="NAME[:option=value,option=value], FILE.py:name or module:name, several "
        "between commas, or all (default ring,auto; where there is no ring: all but naive, and auto)")  # fmt: skip
    add("-b", "--minbytes", type=parse_size, default=1 << 10, metavar="SIZE", help="smallest size (default 1K)")
    add("-e", "--maxbytes", type=parse_size, default=1 << 24, metavar="SIZE", help="largest size (default 16M)")
    add("-f", "--stepfactor", type=int, metavar="F", help="from a size to the next (default 4)")
    add("-i", "--stepbytes", type=parse_size, metavar="SIZE", help="bytes from a size to the next, instead of a factor")
    add("-n", "--iters", type=int, metavar="N", help="iterations of a block (default: as many as take about 40 ms, "
        "2 to 200)")  # fmt: skip
    add("-w", "--warmup_iters", type=int, default=2, metavar="N", help="warm-up iterations a size (default 2), after "
        "a first one")  # fmt: skip
    add("--rounds", type=int, default=5, metavar="N", help="rounds (default 5, the least)")
    add("-c", "--check", type=int, nargs="?", const=1, default=1, metavar="N",
        help="check the results N times a size (default 1; 0: never)")  # fmt: skip
    add("-d", "--datatype", type=parse_dtype, default="float", metavar="TYPE", help="float (default), half, bfloat16, "
        "double, int8, uint8, int32, int64, or torch's names")  # fmt: skip
    add("-o", "--redop", type=str.lower, choices=REDOPS, default="sum", help="the reduction (default sum)")
    add("-r", "--root", type=int, default=0, metavar="RANK", help="of rooted collectives (default 0)")
    add("--mode", choices=MODES, default="pipelined", help="pipelined: a barrier, then iterations back to back; the "
        "mean over ranks. blocking: a barrier before each, timed alone; the slowest counts; with p50, p99")  # fmt: skip
    add("--json", metavar="FILE", help="write environment and rows")
    add("--csv", metavar="FILE", help="write the rows")
    add("--plot", metavar="FILE", help="draw bandwidth and ratio over size: .png, .svg or .pdf (needs matplotlib)")
    add("--trace", metavar="FILE", help="watch one more iteration of each algorithm and size: a Chrome trace, for "
        "ui.perfetto.dev")  # fmt: skip
    add("--scheduler", choices=SCHEDULERS, default="auto", help="auto: SCHED_BATCH for the ranks where they are more "
        "than half as many as the cores (Linux)")  # fmt: skip
    add("--timeout", type=float, default=600.0, metavar="SECONDS", help="for the whole run, or under torchrun for an "
        "operation (default 600)")  # fmt: skip


def main(args: argparse.Namespace) -> int:
    """Check the arguments, run, write the files; the exit status."""
    place = launch._place() if launch.launched() else None
    rank, size = place[:2] if place else (0, None)
    local = _local_ranks() if place else None
    try:
        settings = settings_of(args, size, local, first=rank == 0)
        backend = _backend(settings.backend, local or settings.ranks)
    except ValueError as error:
        if rank == 0:
            print(f"python -m collectives bench: error: {error}", file=sys.stderr)
        return 2
    outcome = _join(settings, backend) if place else _start(settings, backend)
    if outcome is None:
        return 1
    if rank == 0:
        _write(args, outcome)
    return 1 if outcome.wrong else 0


def _local_ranks() -> int | None:
    """How many ranks have been launched on this host: as torchrun, srun and Open MPI say; None if nobody does."""
    for name in ("LOCAL_WORLD_SIZE", "SLURM_STEP_TASKS_PER_NODE", "OMPI_COMM_WORLD_LOCAL_SIZE"):
        if number := re.match(r"\d+", os.environ.get(name, "")):
            return int(number[0])
    return None


def _backend(wanted: str | None, local_ranks: int) -> str:
    """The one asked for, or the one that fits; CUDA is not initialised here.

    Raises:
        ValueError: the backend needs what is not here.
    """
    if wanted == "gloo":
        return wanted
    import torch
    import torch.distributed as dist

    gpus = torch.cuda.device_count() if dist.is_nccl_available() else 0
    if gpus >= local_ranks:
        return "nccl"
    if wanted == "nccl":
        raise ValueError(
            f"--backend nccl: each rank needs a GPU; ranks on this host: {local_ranks}, GPUs that torch sees: {gpus}; "
            "use --backend gloo, or fewer ranks"
        )
    return "gloo"


def _start(settings: Settings, backend: str) -> Outcome | None:
    """Start the ranks; None (and a message) if one failed."""
    from . import session  # here, so that the ranks, which are forked, need not

    try:
        outcomes = launch.run(
            session.run,
            settings.ranks,
            settings,
            backend,
            backend=backend,
            timeout=settings.timeout,
            batch=settings.batch,
        )
    except (launch.RankFailed, launch.RankTimeout) as error:
        hint = "; raise --timeout if that is too short" if isinstance(error, launch.RankTimeout) else ""
        print(f"python -m collectives bench: error: {error}{hint}", file=sys.stderr)
        return None
    return outcomes[0]


def _join(settings: Settings, backend: str) -> Outcome:
    """Be one of the ranks that torchrun has started."""
    if settings.batch:
        with contextlib.suppress(OSError):  # before torch, whose threads inherit it
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    from . import session

    with launch.join(backend, settings.timeout):
        return session.run(settings, backend)


def _write(args: argparse.Namespace, outcome: Outcome) -> None:
    from . import report, span

    if args.json is not None:
        report.write_json(args.json, outcome.environment, outcome.rows)
    if args.csv is not None:
        report.write_csv(args.csv, outcome.rows)
    if args.plot is not None:
        report.write_plot(args.plot, outcome.environment, outcome.rows)
    if args.trace is not None:
        span.write(args.trace, outcome.spans, outcome.names, outcome.environment)
