"""How long a kernel takes: the longer one of its arithmetic and its memory traffic.

A product of an m×k and a k×n matrix reaches, of the peak::

    matmul · m/(m+d) · n/(n+d) · k/(k+d) · wave        d: saturation

``wave`` is how well its tiles fill the multiprocessors: 109 tiles on 108 of them take as long as 216. Of the tiles that
libraries have, those that fill them best count.
"""

from __future__ import annotations

from ..chip import Chip
from .arithmetic import ceil_div, most
from .constants import Software

TILES = ((128, 256), (256, 128), (128, 128))
ELEMENT = 2  # bytes, of the matrices in 16 bits


def wave(m: int, n: int, chip: Chip, batch: int = 1) -> float:
    """The share of the multiprocessors' time that is of use."""
    best = 0.0
    for rows, columns in TILES:
        tiles = ceil_div(m, rows) * ceil_div(n, columns) * batch
        best = most(best, m * n * batch / (ceil_div(tiles, chip.sms) * chip.sms * rows * columns))
    return best


def product(m: int, n: int, k: int, chip: Chip, software: Software, batch: int = 1, dtype: str = "bf16") -> float:
    """Seconds of ``batch`` products; elements of any side may be arrays."""
    d, share = software.saturation, software.fp8 if dtype == "fp8" else software.matmul
    reached = share * m / (m + d) * n / (n + d) * k / (k + d) * wave(m, n, chip, batch)
    arithmetic = 2.0 * m * n * k * batch / (chip.speed(dtype) * reached)
    size = {"fp8": 1, "fp32": 4, "tf32": 4}.get(dtype, ELEMENT)
    return most(arithmetic, traffic(size * batch * (1.0 * m * k + 1.0 * k * n + 1.0 * m * n), chip, software))


def traffic(nbytes: float, chip: Chip, software: Software) -> float:
    """Seconds of a kernel that only moves so many bytes."""
    return nbytes / (chip.bandwidth * software.memory)
