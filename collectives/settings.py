"""What a benchmark run is asked to do, checked before any process starts. Needs no torch."""

from __future__ import annotations

import importlib.util
import os
import re
from argparse import ArgumentTypeError, Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .atomic import check_writable
from .contract import contract_of
from .proof import PROVED_UP_TO, prove
from .registry import algorithms, find

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


@dataclass(frozen=True)
class Settings:
    """One run. ``dtype`` is a key of ``DTYPES``; ``backend`` None is to be found out; ``iters`` None is by time.

    step: the factor from a size to the next if ``multiply``, else the bytes between them.
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

    def count(self, nbytes: int) -> int:
        """Elements: of the buffer, or of a block of it where it has one a rank, as nccl-tests counts them."""
        blocks = self.ranks if contract_of(self.collective).blocks else 1
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


def split_algorithms(text: str) -> list[str]:
    """``ring:channels=2,chunks=8,auto`` is two algorithms: a piece ``option=value`` belongs to the one before."""
    found: list[str] = []
    for piece in text.split(","):
        if found and re.match(r"[A-Za-z_]\w*=", piece):
            if ":" not in found[-1]:
                raise ValueError(f"--algorithm {text!r}: options follow a colon: write {found[-1]}:{piece}")
            found[-1] += "," + piece
        elif piece.strip():
            found.append(piece.strip())
    return list(dict.fromkeys(found))


def settings_of(args: Namespace, launched_ranks: int | None, local_ranks: int | None, first: bool) -> Settings:
    """Check the arguments.

    Args:
        launched_ranks, local_ranks: how many torchrun has started, and on this host; None if it has not.
        first: this is rank 0, or the process that starts the ranks: the one that writes the files.

    Raises:
        ValueError: it names the argument, the value and the fix.
    """
    ranks = args.ranks if args.ranks is not None else launched_ranks or 4
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
    if contract.rooted and not 0 <= args.root < ranks:
        raise ValueError(f"-r/--root {args.root}: use a rank from 0 to {ranks - 1}")
    if first:
        _check_files(args)
    if args.plot is not None and args.collective == "barrier":
        raise ValueError(f"--plot {args.plot}: a barrier has no sizes to plot over; leave --plot out")
    chosen, skipped = choose_algorithms(args.collective, args.algorithm, ranks)
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
    )


def choose_algorithms(collective: str, text: str | None, ranks: int) -> tuple[list[str], list[str]]:
    """What ``--algorithm`` means, each found and proved for this number of ranks; and what was left out of ``all``.

    By default: ring and auto; without a ring, auto and all that there are but ``naive``.

    Raises:
        ValueError: an algorithm that does not exist, or is wrong.
    """
    built_in = [schedule.name for schedule in algorithms(collective)]
    if text is None:
        names = ["ring", "auto"] if "ring" in built_in else [*(n for n in built_in if n != "naive"), "auto"]
    else:
        names = split_algorithms(text)
    if not names:
        raise ValueError(f"--algorithm {text!r} names none: use one of {', '.join(built_in)}, auto or all")
    asked = {name for name in names if name != "all"} if text is not None else set()
    if "all" in names:
        names = [*(name for name in names if name != "all"), *built_in, "auto"]
    chosen, skipped = [], []
    for name in dict.fromkeys(names):
        try:
            if name != "auto":
                schedule = find(collective, name)
                if ranks <= PROVED_UP_TO:
                    prove(schedule, ranks)
        except ValueError as error:
            if name in asked:
                raise ValueError(f"--algorithm {name}: {error}") from error
            skipped.append(f"{name}: {error}")
        else:
            chosen.append(name)
    return chosen, skipped


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
        if Path(args.plot).suffix.lower() not in (".png", ".svg", ".pdf"):
            raise ValueError(f"--plot {args.plot}: name a .png, .svg or .pdf file")
        if importlib.util.find_spec("matplotlib") is None:
            raise ValueError(f"--plot {args.plot} needs matplotlib: pip install 'ringlab[viz]', or leave --plot out")
