"""What a prediction has missed, after the run, and where: in launching, on the wire, at the NICs, in additions.

The smallest size has next to no bytes: what it takes is launching. The wire's row has the messages of a ring and no
additions. So the largest size comes apart::

    ours     ├──── launch ────┤├──────────── wire, NICs ────────────┤├ addition ┤
             as at the smallest  the wire's row, its launching off     what is left

Wire and NICs are seen together; what they took is shared out as it was expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import median

from ..schedule import Schedule
from .expectation import Expectation, Parts
from .nics import said_of_nics
from .report import Row
from .wire import NAME


def verdicts(
    rows: Sequence[Row],
    baselines: Sequence[Row],
    expectation: Expectation | None,
    schedule: Callable[[str, int], Schedule],
) -> Iterator[str]:
    """A line for each algorithm, on the ratios of all sizes and on the time of the largest.

    Args:
        baselines: the wire's rows among them, if there are any.
        schedule: what runs under an algorithm's name at a size.
    """
    if expectation is None:
        return
    wires = {row.bytes: row for row in baselines if row.algorithm == NAME}
    for name in dict.fromkeys(row.algorithm for row in rows):
        mine = sorted((row for row in rows if row.algorithm == name), key=lambda row: row.bytes)
        off = [abs(row.residual) for row in mine if row.residual is not None]
        ends = mine[0], mine[-1]
        small, large = (expectation.ours(schedule(name, row.bytes), row.bytes) for row in ends)
        said = f"median residual of the ratio {100 * median(off):.0f} %; " if off else ""
        beyond = 100 * (ends[1].time_us / 1e6 / large.seconds - 1)
        said += f"at {ends[1].bytes} bytes measured {beyond:+.0f} % beside what was expected"
        found = None
        if ends[0].bytes < ends[1].bytes and all(row.bytes in wires for row in ends):
            found = measured(ends, (wires[ends[0].bytes], wires[ends[1].bytes]), small, large)
        nbytes = ends[1].bytes
        nics = said_of_nics(schedule(name, nbytes), expectation.size, nbytes, expectation.machine, large.seconds)
        yield f"{name}: {said}: {', '.join(_in_words(large, found))}{nics}"


def measured(ours: tuple[Row, Row], wires: tuple[Row, Row], small: Parts, large: Parts) -> Parts:
    """The parts of the largest size's time, as the rows of the smallest and the largest tell them.

    Args:
        ours, wires: rows of the smallest and the largest size. small, large: what was expected of ours.
    """
    launch = ours[0].time_us / 1e6 - (small.seconds - small.launch)
    growth = large.wire + large.nics - small.wire - small.nics
    whole = large.wire + large.nics
    moving = (wires[1].time_us - wires[0].time_us) / 1e6 * (whole / growth if growth > 0 else 1.0)
    nics = moving * large.nics / whole if whole else 0.0
    return Parts(launch, moving - nics, ours[1].time_us / 1e6 - launch - moving, nics)


def _in_words(expected: Parts, found: Parts | None) -> Iterator[str]:
    for name in ("launch", "wire", "nics", "addition"):
        seconds = getattr(expected, name)
        if name == "nics" and not seconds:
            continue
        word = {"nics": "NICs", "addition": "exposed addition"}.get(name, name)
        share = f"{word} {100 * seconds / expected.seconds:.0f} %"
        yield share if found is None else f"{share} {(getattr(found, name) - seconds) * 1e6:+.0f} us"
