"""``--against``: the times of another benchmark, by size, to stand beside ours. Needs no torch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from ..contract import contract_of
from ..readers.measured_run import Run, Timing
from ..readers.nccl_log import read_runs


def read_against(path: str | os.PathLike[str], collective: str, ranks: int) -> dict[int, float]:
    """Bytes to seconds, from an nccl-tests log (or its JSON, or ours).

    Of the two operations that nccl-tests times, that is taken which works as ours does: within one buffer, or from one
    into another. Of several runs the last counts; so of ours, the backend's own.

    Raises:
        ValueError: the file cannot be read, or is of another collective or number of ranks.
    """
    runs = read_runs(path)
    known = [run for run in runs if run.collective in (None, collective)]
    if not known:
        names = sorted({str(run.collective) for run in runs})
        raise ValueError(
            f"--against {path}: it is a log of {', '.join(names)}, not of {collective}; "
            f"give another log, or --collective {names[0]}"
        )
    alike = [run for run in known if run.ranks in (None, ranks)]
    if not alike:
        counts = sorted({run.ranks for run in known if run.ranks})
        raise ValueError(
            f"--against {path}: its run has {' or '.join(map(str, counts))} ranks, this one {ranks}; "
            f"use --ranks {counts[0]}, or a log of {ranks} ranks"
        )
    return _times(alike[-1], prefers_out=contract_of(collective).blocks)


def check_sizes(path: str | os.PathLike[str], theirs: Mapping[int, float], ours: Iterable[int]) -> None:
    """Refuse a log that has none of the sizes that are to be measured.

    Raises:
        ValueError: so it is.
    """
    if not theirs.keys() & set(ours):
        shown = ", ".join(map(str, sorted(theirs)[:6])) + (", …" if len(theirs) > 6 else "")
        raise ValueError(
            f"--against {path}: it has none of this run's sizes, but {shown} bytes; choose -b, -e and -f so"
        )


def _times(run: Run, prefers_out: bool) -> dict[int, float]:
    times = {}
    for row in run.rows:
        pair: tuple[Timing | None, Timing | None] = row.out_of_place, row.in_place
        timing = next((timing for timing in (pair if prefers_out else pair[::-1]) if timing is not None), None)
        if timing is not None and timing.time_us > 0:
            times[row.size] = timing.time_us / 1e6
    return times
