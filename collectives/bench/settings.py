"""What a benchmark run is asked to do, checked before any process starts. Needs no torch."""

from __future__ import annotations

import os
import re
from argparse import ArgumentTypeError, Namespace
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..atomic import check_writable
from ..contract import contract_of
from .against import read_against
from .division import groups_of
from .entrants import choose_algorithms, parse_baselines
from .order import AUTO, NATURAL, Orders, parse_order
from .plot import check_plot

MOST_SIZES = 10_000

# name on the command line and in the table (nccl-tests') → torch's name, bytes
DTYPES = {
    "float": ("float32", 4),
    "half": ("float16", 2),
    "bfloat16": ("bfloat16", 2),
    "double": ("float64", 8),
    "int8": ("int8", 1),
    "uint8": ("uint8", 1),
    "int32": ("int32", 4),
    "int64": ("int64", 8),
}
REDOPS = ("sum", "prod", "min", "max", "avg", "band", "bor", "bxor")
MODES = ("pipelined", "blocking")
SCHEDULERS = ("auto", "default")
COMPUTE = ("gemm", "copy")
MIN_BW = "NCCL_TESTS_MIN_BW"


@dataclass(frozen=True)
class Settings:
    """One run. ``dtype`` is a key of ``DTYPES``; ``backend`` None is to be found out; ``iters`` None is by time.

    step: the factor from a size to the next if ``multiply``, else the bytes between them. groups: those that work at
    the same time, each a tuple of ranks, all of ``members`` ranks. orders: one a ring, none for natural, or
    (``find_order``) to be found on the machine. baselines: names, or None for all of the backend. against: bytes to
    seconds, of another's log. least_busbw: GB/s, see the function of that name. graph, channels: as asked for, None for
    what fits the backend.
    """

    collective: str
    algorithms: tuple[str, ...]
    skipped: tuple[str, ...]
    ranks: int
    backend: str | None
    minbytes: int
    maxbytes: int
    step: int
    multiply: bool
    iters: int | None
    warmup: int
    rounds: int
    check: int
    dtype: str
    redop: str
    root: int
    blocking: bool
    batch: bool
    timeout: float
    trace: bool
    groups: tuple[tuple[int, ...], ...]
    orders: Orders
    find_order: bool
    baselines: tuple[str, ...] | None
    cycles: int
    predict: bool
    compute: str | None
    against: Mapping[int, float]
    least_busbw: float | None
    graph: bool | None
    channels: int | None

    @property
    def members(self) -> int:
        return len(self.groups[0])

    @property
    def itemsize(self) -> int:
        return DTYPES[self.dtype][1]

    @property
    def reduces(self) -> bool:
        return contract_of(self.collective).reduces and self.collective != "barrier"

    @property
    def rooted(self) -> bool:
        return contract_of(self.collective).rooted

    def sizes(self) -> Iterator[int]:
        """Bytes as asked for; a row may have fewer, see ``count``. A barrier has one row, of none."""
        size = 0 if self.collective == "barrier" else self.minbytes
        while True:
            yield size
            if self.collective == "barrier":
                return
            size = (size * self.step if size else self.itemsize) if self.multiply else size + self.step
            if size > self.maxbytes:
                return

    def row_bytes(self, nbytes: int) -> int:
        """The bytes that a row of that size has in the end: a whole number of elements in every block."""
        blocks = self.members if contract_of(self.collective).blocks else 1
        return 0 if self.collective == "barrier" else self.count(nbytes) * blocks * self.itemsize

    def count(self, nbytes: int) -> int:
        """Elements: of the buffer, or of a block of it where it has one a rank, as nccl-tests counts them."""
        blocks = self.members if contract_of(self.collective).blocks else 1
        return nbytes // (self.itemsize * blocks)


def parse_size(text: str) -> int:
    """``64K``, ``1.5M``, ``2GiB``, ``8``: bytes; all suffixes are binary, as in nccl-tests."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if match is None:
        raise ArgumentTypeError(f"{text!r} is not a size: write bytes, or K, M or G, for instance 64K")
    size = float(match[1]) if "." in match[1] else int(match[1])
    size *= 1024 ** " KMGT".index(match[2].upper() or " ")
    if size != int(size):
        raise ArgumentTypeError(f"{text!r} is not a whole number of bytes: write for instance 512 or 1.5K")
    return int(size)


def parse_dtype(text: str) -> str:
    """The name that nccl-tests uses, from that or torch's."""
    for name, (torchs, _) in DTYPES.items():
        if text in (name, torchs):
            return name
    raise ArgumentTypeError(f"{text!r} is not a datatype: use one of {', '.join(DTYPES)}")


def settings_of(
    args: Namespace, launched_ranks: int | None, local_ranks: int | None, first: bool, usual: int = 4
) -> Settings:
    """Check the arguments.

    Args:
        launched_ranks, local_ranks: how many a launcher has started, and on this host; None if none has.
        usual: how many ranks to start if the arguments do not say.
        first: this is rank 0, or the process that starts the ranks: the one that writes the files.

    Raises:
        ValueError: it names the argument, the value and the fix.
    """
    ranks = args.ranks if args.ranks is not None else launched_ranks or usual
    if ranks < 1:
        raise ValueError(f"--ranks {ranks}: start at least 1")
    if launched_ranks not in (None, ranks):
        raise ValueError(
            f"--ranks {ranks}: but the number that has been launched is {launched_ranks}; leave --ranks out"
        )
    minbytes, maxbytes = args.minbytes, args.maxbytes
    if minbytes > maxbytes:
        raise ValueError(f"-b/--minbytes {minbytes} is more than -e/--maxbytes {maxbytes}: exchange them, or raise -e")
    factor = args.stepfactor if args.stepfactor is not None else 4 if args.stepbytes is None else 1
    step = factor if factor > 1 else args.stepbytes if args.stepbytes is not None else 1 << 20
    if factor < 1 or step < 1:
        flag = f"-f/--stepfactor {factor}" if factor < 1 else f"-i/--stepbytes {step}"
        raise ValueError(f"{flag}: sizes must grow; use -f 2, or -i 1M")
    if factor == 1 and (maxbytes - minbytes) // step >= MOST_SIZES:
        raise ValueError(f"-i/--stepbytes {step}: more than {MOST_SIZES} sizes; use a larger step, or -f 2")
    for flag, value, least in (
        ("-n/--iters", args.iters, 1),
        ("-w/--warmup_iters", args.warmup_iters, 0),
        ("--rounds", args.rounds, 5),
        ("-c/--check", args.check, 0),
        ("-N/--cycles", args.cycles, 1),
        ("--channels", args.channels, 1),
    ):
        if value is not None and value < least:
            raise ValueError(f"{flag} {value}: use at least {least}")
    if not args.timeout > 0:
        raise ValueError(f"--timeout {args.timeout:g}: use a number of seconds above 0")
    contract = contract_of(args.collective)
    redop = "none"
    if contract.reduces and args.collective != "barrier":
        redop = args.redop
        _check_redop(redop, args.datatype)
    groups = groups_of(args.split, ranks) if args.split else (tuple(range(ranks)),)
    members = len(groups[0])
    if contract.rooted and not 0 <= args.root < members:
        raise ValueError(f"-r/--root {args.root}: use a rank from 0 to {members - 1}")
    if contract.rooted and args.order not in (AUTO, NATURAL):
        raise ValueError(
            f"--order {args.order}: {args.collective} has a root, from which its order starts; leave it out"
        )
    if args.trace is not None and len(groups) > 1:
        raise ValueError(
            f"--trace {args.trace} with --split {args.split}: a trace is of one group; leave one of them out"
        )
    orders = parse_order(args.order, members)
    if first:
        _check_files(args)
    if args.plot is not None and args.collective == "barrier":
        raise ValueError(f"--plot {args.plot}: a barrier has no sizes to plot over; leave --plot out")
    chosen, skipped = choose_algorithms(args.collective, args.algorithm, members)
    return Settings(
        collective=args.collective,
        algorithms=tuple(chosen),
        skipped=tuple(skipped),
        ranks=ranks,
        backend=args.backend,
        minbytes=minbytes,
        maxbytes=maxbytes,
        step=step,
        multiply=factor > 1,
        iters=args.iters,
        warmup=args.warmup_iters,
        rounds=args.rounds,
        check=0 if args.check is None else args.check,
        dtype=args.datatype,
        redop=redop,
        root=args.root if contract.rooted else -1,
        blocking=args.mode == "blocking",
        batch=args.scheduler == "auto" and hasattr(os, "SCHED_BATCH") and cores() < 2 * (local_ranks or ranks),
        timeout=args.timeout,
        trace=args.trace is not None,
        groups=groups,
        orders=orders,
        find_order=args.order == AUTO and not contract.rooted and len(groups) == 1,
        baselines=parse_baselines(args.baselines),
        cycles=args.cycles,
        predict=args.predict or args.plot is not None,
        compute=args.with_compute,
        against=read_against(args.against, args.collective, members) if args.against is not None else {},
        least_busbw=least_busbw(args.min_busbw, os.environ.get(MIN_BW)),
        graph=args.graph,
        channels=args.channels,
    )


def least_busbw(asked: float | None, environment: str | None) -> float | None:
    """The average bus bandwidth below which a run has failed, GB/s; None: any will do.

    Args:
        asked: ``--min-busbw``, taken as it is.
        environment: ``NCCL_TESTS_MIN_BW``, of which nccl-tests, and so we, forgive a tenth.

    Raises:
        ValueError: what the environment says is no number.
    """
    if asked is not None:
        if not 0 < asked < float("inf"):
            raise ValueError(f"--min-busbw {asked:g}: use a number of GB/s above 0")
        return asked
    if not environment:
        return None
    try:
        number = float(environment)
    except ValueError:
        raise ValueError(f"{MIN_BW}={environment!r} is no number of GB/s; write one, or unset it") from None
    return 0.9 * number if number > 0 else None


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _check_redop(redop: str, dtype: str) -> None:
    whole = dtype.startswith(("int", "uint"))
    if redop == "avg" and whole:
        raise ValueError(f"-o/--redop avg of -d {dtype}: an average of integers is no integer; use sum, or -d float")
    if redop in ("band", "bor", "bxor") and not whole:
        raise ValueError(f"-o/--redop {redop} of -d {dtype}: bits are combined of integers only; use -d int32, or sum")


def _check_files(args: Namespace) -> None:
    for flag in ("json", "csv", "plot", "trace"):
        path = getattr(args, flag)
        if path is None:
            continue
        check_writable(f"--{flag}", path)
    if args.plot is not None:
        check_plot(args.plot)
