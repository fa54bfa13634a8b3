"""A number as people write it: ``0.75``, ``75%``, ``3/4``, ``3M``, ``1.5 MiB``, ``12 ms``."""

from __future__ import annotations

import re
from fractions import Fraction

_NUMBER = r"[-+−]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d{1,3})?"
_TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
_PREFIXES = {"k": 1, "m": 2, "g": 3, "t": 4}


def is_near(text: str, unit: str, answer: float, tolerance: float) -> bool | None:
    """Whether a guess is right in one of the ways to read it; None if it is no number.

    unit: what the answer is in; the guess may name it, another of its kind, or none. ``M`` may be 2²⁰ or 10⁶: both are
    in use. tolerance: relative.
    """
    values = readings(text, unit)
    if not values:
        return None
    allowed = tolerance * abs(answer) + 1e-9 * max(1.0, abs(answer)) * (tolerance == 0)
    return any(abs(value - answer) <= allowed for value in values)


def readings(text: str, unit: str) -> list[float]:
    """The values, in ``unit``, that a text may mean; none if it is no number."""
    text = text.strip().replace("\u2009", "").replace("_", "").replace("％", "%").replace("−", "-")
    match = re.fullmatch(rf"({_NUMBER})(?:\s*/\s*({_NUMBER}))?\s*(.*)", text, re.IGNORECASE)
    if match is None:
        return []
    try:
        value = float(Fraction(match[1]) / Fraction(match[2] or 1))
    except (ZeroDivisionError, OverflowError):
        return []
    suffix = match[3].strip()
    if not suffix or suffix.casefold() == unit.casefold():
        return [value]
    if suffix == "%":
        return [value / 100]
    if suffix.lower() in _TIMES:
        return [value * _TIMES[suffix.lower()] / _TIMES.get(unit, 1.0)]
    size = re.fullmatch(r"([kmgt]?)(i?)(?:b|bytes?)?", suffix, re.IGNORECASE)
    if size is None:
        # a word that we do not know, such as "steps": the unit in another grammar, or another language
        return [value] if not any(one.isdigit() for one in suffix) else []
    power, scale = _PREFIXES.get(size[1].lower(), 0), _size_of(unit)
    return [value * base**power / scale for base in ((1024,) if size[2] else (1024, 1000))]


def _size_of(unit: str) -> float:
    size = re.fullmatch(r"([kmgt])(i?)b", unit.strip(), re.IGNORECASE)
    return float((1024 if size[2] else 1000) ** _PREFIXES[size[1].lower()]) if size else 1.0
