"""What was measured, as a table in the manner of nccl-tests, as JSON and CSV, and as a plot. Needs no torch."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from .atomic import replacing, write_text


@dataclass(frozen=True)
class Row:
    """One algorithm at one size. None where something does not apply or was not measured.

    bytes: the whole buffer. time_us: median over the rounds; cpu_us: CPU time of a rank's process for an operation;
    p50_us, p99_us: over single operations (blocking mode). algbw, busbw: GB/s (10⁹ bytes). wrong: elements over all
    ranks. ratio: ours / native; null: native again / native, both medians of the rounds' ratios. picked: what ``auto``
    has picked.
    """

    collective: str
    algorithm: str
    bytes: int
    dtype: str | None
    redop: str
    ranks: int
    time_us: float
    cpu_us: float
    p50_us: float | None
    p99_us: float | None
    algbw: float
    busbw: float
    wrong: int | None
    native_time_us: float | None
    native_busbw: float | None
    ratio: float | None
    null: float | None
    picked: str | None


@dataclass(frozen=True)
class Line:
    """What the table shows of a row beside it."""

    row: Row
    count: int
    type: str
    root: int
    native_algbw: float | None
    native_wrong: int | None


# name, unit, width; the first 13 are those of nccl-tests
_ARGUMENTS = (("size", "(B)", 12), ("count", "(elements)", 13), ("type", "", 8), ("redop", "", 7), ("root", "", 5))
_TIMES = (("time", "(us)", 10), ("algbw", "(GB/s)", 7), ("busbw", "(GB/s)", 7), ("#wrong", "", 7))
_COMPARED = (("ratio", "", 7), ("null", "", 6), ("algorithm", "", -24))
_OPERATIONS = (("p50", "(us)", 10), ("p99", "(us)", 10))


def title(blocking: bool) -> list[str]:
    """The lines above the columns."""
    columns = (*_ARGUMENTS, *_TIMES, *_TIMES, *_COMPARED, *(_OPERATIONS if blocking else ()))
    widths = [width for *_, width in columns]
    left, group = (sum(width + 1 for *_, width in part) for part in (_ARGUMENTS, _TIMES))
    lines = [
        f"{'ours':>{left + group // 2}}{'native':>{group}}",
        _joined([name for name, *_ in columns], widths),
        _joined([unit for _, unit, _ in columns], widths),
    ]
    return [f"#{line.rstrip()}" for line in lines]


def table_line(line: Line, blocking: bool) -> str:
    """A row of the table: columns between blanks, the first 13 as nccl-tests has them (N/A for what there is not)."""
    row = line.row
    algorithm = row.algorithm if row.picked is None else f"{row.algorithm}({row.picked})"
    ours = (_time(row.time_us), _number(row.algbw, 3), _number(row.busbw, 3), _number(row.wrong, 0))
    native = (
        _time(row.native_time_us),
        _number(line.native_algbw, 3),
        _number(row.native_busbw, 3),
        _number(line.native_wrong, 0),
    )
    compared = (_number(row.ratio, 2), _number(row.null, 2), "_".join(algorithm.split()))
    columns: tuple[tuple[str, str, int], ...] = (*_ARGUMENTS, *_TIMES, *_TIMES, *_COMPARED)
    cells = [str(row.bytes), str(line.count), line.type, row.redop, str(line.root), *ours, *native, *compared]
    if blocking:
        columns = (*columns, *_OPERATIONS)
        cells += [_time(row.p50_us), _time(row.p99_us)]
    return " " + _joined(cells, [width for *_, width in columns]).rstrip()


def closing(wrong: int, rows: Sequence[Row]) -> list[str]:
    """The last two lines, which scripts read. The average is of our rows."""
    average = sum(row.busbw for row in rows) / len(rows) if rows else 0.0
    return [
        f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}",
        f"# Avg bus bandwidth    : {average:.6g}",
    ]


def say(line: str) -> None:
    """Print a line of a table that is still growing."""
    try:
        print(line, flush=True)
    except BrokenPipeError:  # whoever read it has gone; the files are still wanted
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def write_json(path: str | os.PathLike[str], environment: dict[str, Any], rows: Sequence[Row]) -> None:
    """``{"environment": …, "rows": […]}``, all or nothing."""
    result = {"environment": environment, "rows": [asdict(row) for row in rows]}
    write_text(path, json.dumps(result, indent=1, ensure_ascii=False) + "\n")


def write_csv(path: str | os.PathLike[str], rows: Sequence[Row]) -> None:
    """One line a row, under the names that the JSON has; empty for None. All or nothing."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    write_text(path, text.getvalue())


def write_plot(path: str | os.PathLike[str], environment: dict[str, Any], rows: Sequence[Row]) -> None:
    """Bus bandwidth over size above, ratio to the backend below; rows of no bytes are left out. Needs matplotlib."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    figure = Figure(figsize=(8, 7), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    shown = [row for row in rows if row.bytes]
    for algorithm in dict.fromkeys(row.algorithm for row in shown):
        mine = [row for row in shown if row.algorithm == algorithm]
        upper.plot([row.bytes for row in mine], [row.busbw for row in mine], "o-", label=algorithm, markersize=4)
        with_ratio = [(row.bytes, row.ratio) for row in mine if row.ratio is not None]
        lower.plot([size for size, _ in with_ratio], [ratio for _, ratio in with_ratio], "o-", markersize=4)
    native = {row.bytes: row for row in shown if row.native_busbw is not None}
    backend = environment["backend"]
    upper.plot(list(native), [row.native_busbw or 0.0 for row in native.values()], "k--", label=f"{backend} itself")
    lower.plot(list(native), [row.null or 1.0 for row in native.values()], "k--")
    lower.axhline(1.0, color="grey", linewidth=0.8)
    upper.set_ylabel("bus bandwidth (GB/s)")
    lower.set_ylabel(f"time / {backend}'s (below 1: faster)")
    lower.set_xlabel("buffer")
    for axes in (upper, lower):
        axes.set_xscale("log", base=2)
        axes.grid(alpha=0.3)
    lower.xaxis.set_major_formatter(FuncFormatter(lambda size, _: _binary(size)))
    upper.legend(fontsize="small")
    title = f"{shown[0].collective} of {shown[0].dtype}, " if shown else ""
    upper.set_title(f"{title}{environment['ranks']} ranks, {backend}, {', '.join(environment['devices'])}", fontsize=9)
    with replacing(path) as fresh:
        figure.savefig(fresh, dpi=120)


def _binary(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:g} {unit}"
        size /= 1024
    return f"{size:g} GiB"


def _joined(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Right-aligned, or left-aligned in a negative width; a blank between any two."""
    return " ".join(
        f"{cell:>{width}}" if width > 0 else f" {cell:<{-width}}" for cell, width in zip(cells, widths, strict=True)
    )


def _number(number: float | None, digits: int) -> str:
    return "N/A" if number is None else f"{number:.{digits}f}"


def _time(us: float | None) -> str:
    return "N/A" if us is None else _number(us, 0 if us >= 10_000 else 1 if us >= 100 else 2)
