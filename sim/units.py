"""Numbers as people write them: ``1G`` bytes, ``5us``, ``50`` GB/s. Sizes are binary, bandwidths decimal."""

from __future__ import annotations

import re
from decimal import Decimal

_TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_BANDWIDTHS = {"gb": 1e9, "mb": 1e6, "gbit": 1e9 / 8, "mbit": 1e6 / 8, "kbit": 1e3 / 8}
_BINARY = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_THOUSANDS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "G": 10**9, "T": 10**12}
LARGEST_COUNT = 10**24
LARGEST_SIZE, LONGEST, SLOWEST, FASTEST = 1 << 60, 1e9, 1.0, 1e18  # bytes, seconds, bytes a second
_NUMBER = r"([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)"


def parse_size(text: str, name: str = "size") -> int:
    """Bytes: ``4096``, ``64K``, ``1M``, ``1GiB`` (all binary).

    Raises:
        ValueError: anything else.
    """
    match = re.fullmatch(_NUMBER + r"\s*([KMGT]?)(?:I?B)?", text.strip().upper())
    size = float(match[1]) * _BINARY[match[2]] if match else -1.0
    if not 0 <= size <= LARGEST_SIZE:
        raise ValueError(f"{name} {text!r}: write bytes like 4096, 64K, 1M or 1G (binary), at most 2**60")
    return round(size)


def parse_count(text: str, name: str = "number") -> int:
    """How many: ``4096``, ``70B``, ``15T``, ``1.5e9`` (all decimal), exactly.

    Raises:
        ValueError: anything else.
    """
    match = re.fullmatch(_NUMBER + r"\s*([KMBGT]?)", text.strip().upper().replace(",", "").replace("_", ""))
    sound = match and len(text) < 40 and float(match[1]) <= LARGEST_COUNT  # before Decimal, which would overflow
    count = Decimal(match[1]) * _THOUSANDS[match[2]] if match and sound else Decimal(-1)
    if not 0 <= count <= LARGEST_COUNT or count % 1:
        raise ValueError(f"{name} {text!r}: write a whole number like 4096, 70B, 15T or 1.5e9, at most 1e24")
    return int(count)


def parse_time(text: str, name: str = "time") -> float:
    """Seconds: ``1us``, ``2.5ms``, ``0``; a number without a unit is in seconds.

    Raises:
        ValueError: anything else, or a negative time.
    """
    match = re.fullmatch(_NUMBER + r"\s*(s|ms|us|µs|ns)?", text.strip())
    seconds = float(match[1]) * _TIMES[match[2] or "s"] if match else -1.0
    if not 0 <= seconds <= LONGEST:
        raise ValueError(f"{name} {text!r}: write a time like 1us, 2.5ms or 0.1s, from 0 on and at most 1e9s")
    return seconds


def parse_bandwidth(text: str, name: str = "bandwidth") -> float:
    """Bytes a second: ``50`` is 50 GB/s; also ``50GB/s``, ``400Gbit``, ``200mbit``.

    Raises:
        ValueError: anything else, or a bandwidth that is not above 0.
    """
    match = re.fullmatch(_NUMBER + r"\s*(?:(gb/s|gb|mb/s|mb)|([gmk]bit)(?:/s)?)?", text.strip().lower())
    unit = ((match[2] or match[3] or "gb") if match else "gb").replace("/s", "")
    value = float(match[1]) * _BANDWIDTHS[unit] if match else 0.0
    if not SLOWEST <= value <= FASTEST:
        raise ValueError(f"{name} {text!r}: write GB/s above 0 (and at most 1e9), like 50, 50GB/s or 400gbit")
    return value


def show_time(seconds: float) -> str:
    """``12.3 ms``, with four digits that count."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if abs(seconds) >= size:
            return f"{seconds / size:.4g} {unit}"
    return f"{seconds * 1e9:.4g} ns" if seconds else "0 s"


def show_bytes(nbytes: float) -> str:
    """``1.5 GiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(nbytes) < 1024:
            return f"{nbytes:.4g} {unit}"
        nbytes /= 1024
    return f"{nbytes:.4g} TiB"


def show_count(number: float) -> str:
    """``1.44 B``: decimal, three digits that count."""
    for unit, size in (("T", 1e12), ("B", 1e9), ("M", 1e6), ("K", 1e3)):
        if abs(number) >= size:
            return f"{number / size:.4g} {unit}" if number / size < 1e4 else f"{number / size:.3e} {unit}"
    return f"{number:.4g}"


def show_gigabytes(nbytes: float) -> str:
    """``23.03 GB``: decimal, as memory of models is written."""
    return f"{nbytes / 1e9:,.2f} GB"
