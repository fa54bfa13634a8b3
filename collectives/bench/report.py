"""What was measured, as a table in the manner of nccl-tests, as JSON and as CSV. Needs no torch."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from ..atomic import write_text

if TYPE_CHECKING:
    from .settings import Settings


@dataclass(frozen=True)
class Row:
    """One algorithm at one size. None where something does not apply or was not measured.

    bytes: the whole buffer. time_us: median over the rounds, or over the cycles; cpu_us: CPU time of a rank's process
    until its call has returned (on CUDA: to enqueue); p50_us, p99_us: over single operations (blocking mode). algbw,
    busbw: GB/s (10⁹ bytes). wrong: elements over all ranks. ratio: ours / native; null: native again / native, both
    medians of the rounds' ratios. picked: what ``auto`` has picked. iqr_us: the interquartile range of the times that
    time_us is the median of. of_wire: the wire's time / ours. ratios: ours / each baseline, by name. expected_us,
    expected_ratio: predicted before the run; residual: ratio / expected_ratio - 1. against_us, against_ratio: of
    another benchmark's log, and ours / that. loaded_us: beside a computation; slowdown: loaded_us / time_us;
    compute_slowdown: the computation's time beside this / alone.
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
    iqr_us: float = 0.0
    of_wire: float | None = None
    ratios: dict[str, float] = field(default_factory=dict)
    expected_us: float | None = None
    expected_ratio: float | None = None
    residual: float | None = None
    against_us: float | None = None
    against_ratio: float | None = None
    loaded_us: float | None = None
    slowdown: float | None = None
    compute_slowdown: float | None = None


@dataclass(frozen=True)
class Line:
    """What the table shows of a row beside it."""

    row: Row
    count: int
    type: str
    root: int
    native_algbw: float | None
    native_wrong: int | None

    def with_row(self, row: Row) -> Line:
        """The same beside another row of the same size."""
        native = row.native_time_us
        return replace(self, row=row, native_algbw=None if native is None else row.bytes / native / 1e3)


# name, unit, width; the first 13 are those of nccl-tests
_ARGUMENTS = (("size", "(B)", 12), ("count", "(elements)", 13), ("type", "", 8), ("redop", "", 7), ("root", "", 5))
_TIMES = (("time", "(us)", 10), ("algbw", "(GB/s)", 7), ("busbw", "(GB/s)", 7), ("#wrong", "", 7))
_COMPARED = (("ratio", "", 7), ("null", "", 6), ("algorithm", "", -24))
# those that stand behind them where they are asked for: heading, unit, and a field of the row
_EXTRA = {
    "p50_us": ("p50", "(us)", 10),
    "p99_us": ("p99", "(us)", 10),
    "cpu_us": ("cpu", "(us)", 9),
    "iqr_us": ("iqr", "(us)", 9),
    "of_wire": ("of_wire", "", 7),
    "expected_ratio": ("expected", "", 8),
    "residual": ("residual", "(%)", 8),
    "against_us": ("theirs", "(us)", 10),
    "against_ratio": ("/theirs", "", 7),
    "slowdown": ("slowed", "", 7),
    "compute_slowdown": ("compute", "slowed", 8),
}


def columns(settings: Settings) -> list[str]:
    """The fields that a run shows behind the usual ones."""
    wanted = {
        "p50_us": settings.blocking,
        "p99_us": settings.blocking,
        "cpu_us": True,
        "iqr_us": settings.cycles > 1,
        "of_wire": settings.baselines is None or "wire" in settings.baselines,
        "expected_ratio": settings.predict,
        "residual": settings.predict,
        "against_us": bool(settings.against),
        "against_ratio": bool(settings.against),
        "slowdown": settings.compute is not None,
        "compute_slowdown": settings.compute is not None,
    }
    return [name for name, shown in wanted.items() if shown]


def title(extra: Sequence[str] = ()) -> list[str]:
    """The lines above the columns.

    Args:
        extra: fields of a row to show behind the usual ones.
    """
    columns = (*_ARGUMENTS, *_TIMES, *_TIMES, *_COMPARED, *(_EXTRA[name] for name in extra))
    widths = [width for *_, width in columns]
    left, group = (sum(width + 1 for *_, width in part) for part in (_ARGUMENTS, _TIMES))
    lines = [
        f"{'ours':>{left + group // 2}}{'native':>{group}}",
        _joined([name for name, *_ in columns], widths),
        _joined([unit for _, unit, _ in columns], widths),
    ]
    return [f"#{line.rstrip()}" for line in lines]


def table_line(line: Line, extra: Sequence[str] = ()) -> str:
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
    cells = [str(row.bytes), str(line.count), line.type, row.redop, str(line.root), *ours, *native, *compared]
    cells += [_extra_cell(name, getattr(row, name)) for name in extra]
    columns = (*_ARGUMENTS, *_TIMES, *_TIMES, *_COMPARED, *(_EXTRA[name] for name in extra))
    return " " + _joined(cells, [width for *_, width in columns]).rstrip()


def _extra_cell(name: str, value: float | None) -> str:
    if name.endswith("_us"):
        return _time(value)
    if name == "residual":
        return "N/A" if value is None else f"{100 * value:+.0f}"
    return _number(value, 2)


def average_busbw(rows: Sequence[Row]) -> float:
    """The mean of all rows, GB/s; as nccl-tests has it."""
    return sum(row.busbw for row in rows) / len(rows) if rows else 0.0


def closing(wrong: int, rows: Sequence[Row], least: float | None = None) -> list[str]:
    """The last two lines, which scripts read. The average is of our rows.

    Args:
        least: the average that was asked for, GB/s; the last line then says whether it was reached.
    """
    average = average_busbw(rows)
    verdict = "" if least is None else " OK" if average >= least else f" FAILED (at least {least:g} was asked for)"
    return [
        f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}",
        f"# Avg bus bandwidth    : {average:.6g}{verdict}",
    ]


def say(line: str) -> None:
    """Print a line of a table that is still growing."""
    try:
        print(line, flush=True)
    except BrokenPipeError:  # whoever read it has gone; the files are still wanted
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def write_json(
    path: str | os.PathLike[str], environment: dict[str, Any], rows: Sequence[Row], baselines: Sequence[Row] = ()
) -> None:
    """``{"environment": …, "rows": […], "baselines": […]}``, all or nothing.

    Args:
        baselines: the wire and the backend's own under other settings, in rows like ours.
    """
    result = {
        "environment": environment,
        "rows": [asdict(row) for row in rows],
        "baselines": [asdict(row) for row in baselines],
    }
    write_text(path, json.dumps(result, indent=1, ensure_ascii=False) + "\n")


def write_csv(path: str | os.PathLike[str], rows: Sequence[Row]) -> None:
    """One line a row, under the names that the JSON has; empty for None, ``ratios`` as JSON. All or nothing."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows({**asdict(row), "ratios": json.dumps(row.ratios)} for row in rows)
    write_text(path, text.getvalue())


def _joined(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Right-aligned, or left-aligned in a negative width; a blank between any two."""
    return " ".join(
        f"{cell:>{width}}" if width > 0 else f" {cell:<{-width}}" for cell, width in zip(cells, widths, strict=True)
    )


def _number(number: float | None, digits: int) -> str:
    return "N/A" if number is None else f"{number:.{digits}f}"


def _time(us: float | None) -> str:
    return "N/A" if us is None else _number(us, 0 if us >= 10_000 else 1 if us >= 100 else 2)
