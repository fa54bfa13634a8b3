"""The time axis, and numbers as pictures write them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..replay import Curve
from ..units import show_bytes, show_time
from ..words import Words


def time_scale(end: float, unit: str) -> tuple[float, str]:
    """What to multiply times with so that ``end`` is a handy number, and the unit they then have."""
    if unit != "s" or not end:
        return 1.0, unit
    for factor, name in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if end * factor >= 1:
            return factor, name
    return 1e9, "ns"


def ticks(end: float, most: int) -> list[float]:
    """At most ``most`` + 1 round numbers from 0 to ``end``, 1, 2 or 5 times a power of ten apart."""
    if not end:
        return [0.0]
    rough = end / max(1, most)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * times for times in (1, 2, 5, 10) if power * times >= rough * (1 - 1e-9))
    return [index * step for index in range(int(end / step * (1 + 1e-9)) + 1)]


def tick_text(tick: float) -> str:
    return f"{tick:.6g}"


def unit_text(unit: str, words: Words) -> str:
    """A unit that is a word in words; others are symbols in every language."""
    return words(f"unit.{unit}") if f"unit.{unit}" in words else unit


def time_text(time: float, unit: str, words: Words) -> str:
    return show_time(time) if unit == "s" else _counted(f"{time:.6g}", unit, words)


def value_text(value: float, unit: str, words: Words) -> str:
    """A value of a curve: bytes in binary units, all else as it is."""
    return show_bytes(value) if unit in ("B", "bytes") else _counted(f"{value:.4g}", unit, words)


def _counted(number: str, unit: str, words: Words) -> str:
    """``1 slot``, ``2 slots``."""
    if number == "1" and f"one.{unit}" in words:
        return words.counted(unit, 1)
    return f"{number} {unit_text(unit, words)}".rstrip()


def fact_name(key: str, words: Words) -> str:
    """The key in words; its unit stands with the value."""
    return words(f"fact.{key}") if f"fact.{key}" in words else key.removesuffix("_s").replace("_", " ")


def fact_text(key: str, value: float | str, unit: str, words: Words) -> str:
    """A number of the run for people; which kind it is tells its key."""
    if isinstance(value, str | bool):
        return str(value)
    parts = key.split("_")
    if parts[-1] in ("s", "seconds", "time", "makespan", "span", "wait", "busy"):
        return time_text(value, unit, words)
    if parts[-1] in ("algbw", "busbw", "bandwidth"):
        return f"{value:.4g} GB/s"
    if "bytes" in parts or parts[-1] == "size":
        return show_bytes(value)
    if "bubble" in parts or parts[-1] in ("fraction", "utilisation", "efficiency"):
        return f"{value:.2%}".replace("%", " %") if abs(value) <= 1 else f"{value:.6g}"
    return str(value) if isinstance(value, int) else f"{value:.6g}"


def top(curves: Sequence[Curve]) -> float:
    """What a curve's full height means: the largest limit, or value, of all that are drawn alike."""
    return max((max([curve.limit, *curve.values]) for curve in curves), default=0.0) or 1.0


def mean(curve: Curve, end: float) -> float:
    """The average from 0 to ``end``."""
    until = [*curve.times[1:], max(end, *curve.times[-1:])]
    area = sum(v * (b - a) for v, a, b in zip(curve.values, curve.times, until, strict=True))
    return area / end if end else 0.0
