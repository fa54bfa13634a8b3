"""What the rows of an nccl-tests table say about themselves: which collective, how many ranks, and whether they fit.

    algbw = size / time          busbw = algbw · factor(ranks)          average = mean of all busbw

Numbers are rounded when they are printed, so each is an interval, and two that overlap are taken to agree. Needs no
torch.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..contract import CONTRACTS
from .nccl_row import Group, Printed, Reading

_MOST_RANKS = 1 << 24


@dataclass(frozen=True, slots=True)
class _Look:
    """How a test's rows look. both: its in-place results are checked too."""

    redop: bool
    root: bool
    blocks: bool
    both: bool = True


_LOOKS = {
    "all_reduce": _Look(redop=True, root=False, blocks=False),
    "reduce_scatter": _Look(redop=True, root=False, blocks=True),
    "reduce": _Look(redop=True, root=True, blocks=False),
    "broadcast": _Look(redop=False, root=True, blocks=False),
    "gather": _Look(redop=False, root=True, blocks=True),
    "scatter": _Look(redop=False, root=True, blocks=True),
    "all_gather": _Look(redop=False, root=False, blocks=True),
    "all_to_all": _Look(redop=False, root=False, blocks=True, both=False),
    "sendrecv": _Look(redop=True, root=False, blocks=False, both=False),
}


def possible_collectives(readings: Sequence[Reading], ranks: int | None) -> list[str]:
    """The tests whose rows have these columns and counts; none if no row has bytes.

    Args:
        ranks: if known from elsewhere.
    """
    sized = [reading for reading in readings if reading.size]
    if not sized:
        return []
    kind = any(reading.redop for reading in sized), any(reading.root is not None for reading in sized)
    names = [name for name, look in _LOOKS.items() if (look.redop, look.root) == kind]
    blocks = _blocks(readings)
    if blocks is not None and ranks != 1:
        names = [name for name in names if _LOOKS[name].blocks == (blocks > 1)]
    return names


def likely_collectives(readings: Sequence[Reading], ranks: int | None) -> list[str]:
    """Those of the possible ones that also check their results, and reckon busbw, as is printed."""
    names = possible_collectives(readings, ranks)
    sized = [reading for reading in readings if reading.size]
    outside = any(reading.out_of_place.checked for reading in sized if reading.out_of_place)
    inside = any(reading.in_place.checked for reading in sized if reading.in_place)
    if inside or (outside and all(reading.in_place for reading in sized)):  # only both=False leaves one unchecked
        names = [name for name in names if _LOOKS[name].both == inside]
    if {"all_reduce", "sendrecv"} <= set(names):
        groups = [group for reading in sized for group in reading.groups]
        factor = CONTRACTS["all_reduce"].factor(ranks) if ranks else None
        if not all(_agree(group.algbw, 1.0, group.busbw) for group in groups):
            names.remove("sendrecv")
        elif factor and not all(_agree(group.algbw, factor, group.busbw) for group in groups):
            names.remove("all_reduce")
    return names


def fitting_ranks(collective: str | None, readings: Sequence[Reading]) -> tuple[int, int] | None:
    """The fewest and the most ranks that fit the rows; None if they say nothing about it."""
    contract = CONTRACTS.get(collective or "")
    if contract and contract.blocks:
        blocks = _blocks(readings)
        return None if blocks is None else (blocks, blocks)
    if collective != "all_reduce":
        return None
    fits = [fit for reading in readings for group in reading.groups if (fit := _all_reduce_ranks(group))]
    # The row that says most comes first; one that contradicts it does not count.
    fits.sort(key=lambda fit: fit[1] - fit[0])
    low, high = 1, _MOST_RANKS
    for fewest, most in fits:
        if max(low, fewest) <= min(high, most):
            low, high = max(low, fewest), min(high, most)
    return (low, high) if high < _MOST_RANKS else None


def unfitting_rows(collective: str | None, ranks: int | None, readings: Sequence[Reading]) -> list[str]:
    """A sentence for each row in which a number does not follow from the others; O(rows)."""
    contract = CONTRACTS.get(collective or "")
    factor = contract.factor(ranks) if contract and ranks else None
    blocks = _blocks(readings)
    sentences = []
    for reading in readings:
        where = f"{reading.where}: "
        if blocks is not None and reading.size and reading.blocks not in (None, blocks):
            sentences.append(f"{where}{reading.count} elements do not make {reading.size} bytes as in the other rows")
        for place, group in _groups(reading):
            speed = reading.size / 1e3 / group.time.value
            if collective != "hypercube" and not _is_speed(reading.size, group):  # its algbw leaves a block out
                sentences.append(
                    f"{where}{place} algbw is {group.algbw.value:g} GB/s, but {reading.size} bytes in "
                    f"{group.time.value:g} us are {speed:.4g} GB/s"
                )
            elif factor is not None and not _agree(group.algbw, factor, group.busbw):
                sentences.append(
                    f"{where}{place} busbw is {group.busbw.value:g} GB/s, but {collective} of {ranks} ranks has "
                    f"{group.algbw.value * factor:.4g} GB/s"
                )
    return sentences


def unfitting_average(average: Printed, readings: Sequence[Reading]) -> str | None:
    """A sentence if the printed average is not the mean of the rows' bus bandwidths."""
    cells = [group.busbw for reading in readings for group in reading.groups]
    if not cells:
        return None
    mean = math.fsum(cell.value for cell in cells) / len(cells)
    half = math.fsum(cell.half for cell in cells) / len(cells)
    if abs(mean - average.value) <= 1.01 * (half + average.half):
        return None
    return f"the printed average bus bandwidth is {average.value:g} GB/s, the mean of the rows {mean:.6g}"


def _groups(reading: Reading) -> Iterator[tuple[str, Group]]:
    if reading.out_of_place:
        yield "out-of-place", reading.out_of_place
    if reading.in_place:
        yield "in-place", reading.in_place


def _blocks(readings: Sequence[Reading]) -> int | None:
    """How many times the count makes up the size, as most rows say."""
    said = Counter(reading.blocks for reading in readings if reading.blocks)
    if not said:
        return None
    blocks, times = said.most_common(1)[0]
    return blocks if 2 * times > said.total() else None


def _agree(one: Printed, factor: float, other: Printed) -> bool:
    """Whether the first times the factor may be the second."""
    return one.low * factor <= other.high and other.low <= one.high * factor


def _is_speed(size: int, group: Group) -> bool:
    """Whether bytes / time may be the printed algbw; a time that was rounded to 0 may be any."""
    slowest = size / 1e3 / group.time.high
    return slowest <= group.algbw.high and (group.time.low <= 0 or group.algbw.low <= size / 1e3 / group.time.low)


def _all_reduce_ranks(group: Group) -> tuple[int, int] | None:
    """busbw / algbw = 2(n − 1)/n, so n = 2 / (2 − ratio)."""
    if group.algbw.low <= 0:
        return None
    low, high = max(0.0, group.busbw.low / group.algbw.high), group.busbw.high / group.algbw.low
    if low >= 2:
        return None
    fewest = math.ceil(2 / (2 - low) - 1e-9)
    most = _MOST_RANKS if 2 - high < 2 / _MOST_RANKS else math.floor(2 / (2 - high) + 1e-9)
    return (fewest, most) if fewest <= most else None
