"""The flags of ``python -m collectives bench``; as in nccl-tests where it has them. Needs no torch."""

from __future__ import annotations

import argparse

from ..contract import CONTRACTS
from ..launch_line import LAUNCHERS
from .entrants import BASELINES
from .settings import COMPUTE, MIN_BW, MODES, REDOPS, SCHEDULERS, parse_dtype, parse_size

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
5 * 2**16 * itemsize + 128 * 8191 bytes.

Baselines stand in rows below ours: `wire` moves what a ring moves and adds nothing (of_wire is its time / ours, for a
ring at most about 1); on NCCL `nccl-ring` (NCCL_ALGO=Ring, NVLS off) and `nccl-ring-simple` (also NCCL_PROTO=Simple),
made under those settings in the same run and confirmed by NCCL's log; on gloo `gloo-2`, a second group like the first.
`native` is the backend as it comes: only the ratio to that says which is faster. cpu is the CPU time until the call has
returned: on CUDA the time to enqueue, which --graph makes one launch (of ours; NCCL's own collectives are one anyway).

Channels (ring:channels=N) on gloo share one wire and the CPUs. Measured: between hosts two make a ring a tenth faster
at 4 MiB and no faster at 1 MiB, four are no better than two; on one host they cost up to 4 MiB, and pay from 16 MiB on
as segments that stay in the cache. k rings over NICs of their own (--order) are another matter: they take 1/k of the
time.

Exit status: 0; 1 if anything was wrong, a rank failed, or the average bus bandwidth is below --min-busbw (or 0.9 x
${MIN_BW}, as nccl-tests has it); 2 for a wrong argument.
"""

_JSON = """JSON: {"environment": …, "rows": […], "baselines": […]}; rows are ours, baselines have the same keys:
  collective, algorithm, picked (by auto), bytes, dtype, redop, ranks (of a group), wrong, time_us (median), iqr_us
  (its interquartile range, over rounds or cycles), cpu_us, p50_us, p99_us, algbw, busbw (GB/s), native_time_us,
  native_busbw, ratio, null, of_wire, ratios (to each baseline), expected_us, expected_ratio, residual (--predict),
  against_us, against_ratio (--against), loaded_us, slowdown, compute_slowdown (--with-compute); null where it was not
  measured.
  environment.graph: whether all of ours could be captured and replayed (--graph); environment.channels: --channels.
  environment.hosts are named host0, host1, …; environment.topology is what nvidia-smi topo -m prints, by host.

"""

_EXAMPLES = (
    _JSON
    + """examples:
  python -m collectives bench                                          all_reduce on 4 ranks: ring and auto
  python -m collectives bench --ranks 2 -b 1M -e 64M -f 2 --algorithm ring,ring:channels=2
  python -m collectives bench --collective all_gather --algorithm all --json all_gather.json
  python -m collectives bench --algorithm mine.py:all_reduce -b 64K -e 64K --trace mine.trace.json
  python -m collectives bench -d bfloat16 -o avg --mode blocking --plot latency.svg
  python -m collectives bench --cycles 5 --json today.json; python -m collectives diff last.json today.json
  python -m collectives bench --against all_reduce_perf.log --min-busbw 300 --ranks 8
  python -m collectives bench --ranks 8 --split DIV:4 --baselines none    two groups of four at once
  python -m collectives bench --nodes 2 --ranks 16 --print-launch slurm
  torchrun --nproc-per-node 4 -m collectives bench -b 8 -e 128M -f 2   one node or several, as torchrun is told
"""
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags; as in nccl-tests where it has them."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description, parser.epilog = _DESCRIPTION, _EXAMPLES
    add = parser.add_argument
    add(
        "--ranks",
        type=int,
        metavar="N",
        help="processes to start (default: one a GPU, or 4); under torchrun, srun and mpirun those that it started",
    )
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
    add("-N", "--cycles", "--run_cycles", type=int, default=1, metavar="N", help="do all of it N times: medians and "
        "interquartile ranges (default 1)")  # fmt: skip
    add("--graph", action=argparse.BooleanOptionalAction, help="replay ours and the wire from CUDA graphs (default on "
        "NCCL, which alone has something to capture)")  # fmt: skip
    add("--channels", type=int, metavar="K", help="cut the buffer in K, each share on a process group of its own: one "
        "is reduced while another travels (default on NCCL: 2 for a ring, unless --order names several)")  # fmt: skip
    add("--baselines", default="auto", metavar="A,B", help="auto (those of the backend), none, or some of "
        f"{', '.join(BASELINES)}")  # fmt: skip
    add("--predict", action="store_true", help="probe the machine, print the expected ratio before the run "
        "and the residual after it, split into launch, wire, NICs and exposed addition")  # fmt: skip
    add("--with-compute", choices=COMPUTE, help="time all again while every rank multiplies matrices, or copies; "
        "both slow-downs are shown")  # fmt: skip
    add("--order", default="auto", metavar="ORDER", help="how our schedules go round the ranks: auto (what `python -m "
        "sim rings` makes of nvidia-smi topo -m; over several hosts a ring a NIC), natural, a list like 0,2,1,3, two "
        "rings like 0,1,3,2+1,0,2,3, or a file that sim rings has emitted; several are for ring alone, and the "
        "algorithm auto keeps its own")  # fmt: skip
    add("--split", metavar="MOD:N|DIV:N", help="several groups at once: ranks with equal rank mod N (rails) or div N")
    add("--against", metavar="LOG", help="beside ours, the times of another benchmark: an nccl-tests log or a JSON")
    add("--min-busbw", type=float, metavar="X", help="fail if the average bus bandwidth of ours is below X GB/s")
    add("--json", metavar="FILE", help="write environment, rows and baselines")
    add("--csv", metavar="FILE", help="write the rows")
    add("--plot", metavar="FILE", help="draw bandwidth and ratio over size, with native, wire and model: .png, .svg or "
        ".pdf (needs matplotlib)")  # fmt: skip
    add("--trace", metavar="FILE", help="watch one more iteration of each algorithm and size: a Chrome trace, for "
        "ui.perfetto.dev")  # fmt: skip
    add("--print-launch", choices=LAUNCHERS, help="print the line that starts this on --nodes nodes, and stop")
    add("--nodes", type=int, default=1, metavar="N", help="for --print-launch: they share --ranks (default 1)")
    add("--scheduler", choices=SCHEDULERS, default="auto", help="auto: SCHED_BATCH for the ranks where they are more "
        "than half as many as the cores (Linux)")  # fmt: skip
    add("--timeout", type=float, default=600.0, metavar="SECONDS", help="for the whole run, or under torchrun for an "
        "operation (default 600)")  # fmt: skip
