"""A picture as a list of shapes, in pixels from the top left corner; ``svg`` and ``png`` write it."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from typing import TypeAlias

CJK_FONTS = ("Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei")


@dataclass(frozen=True, slots=True)
class Rect:
    """pattern: ``hatch`` or ``dots`` over the fill; tip: what to say when somebody points at it."""

    x: float
    y: float
    width: float
    height: float
    fill: str
    pattern: str = ""
    stroke: str = ""
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """Through all points; ``arrow``: with a head at the last."""

    points: tuple[tuple[float, float], ...]
    stroke: str
    width: float = 1.0
    dashed: bool = False
    arrow: bool = False


@dataclass(frozen=True, slots=True)
class Circle:
    x: float
    y: float
    radius: float
    fill: str
    stroke: str = ""
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    """``y`` is the middle of the line; anchor: ``start``, ``middle`` or ``end`` of the text is at ``x``."""

    x: float
    y: float
    text: str
    size: float
    fill: str
    anchor: str = "start"
    bold: bool = False


Shape: TypeAlias = Rect | Line | Circle | Text


@dataclass(frozen=True)
class Picture:
    """title, description: for those who do not see it."""

    width: float
    height: float
    title: str
    description: str
    shapes: list[Shape] = field(default_factory=list)


def text_width(text: str, size: float) -> float:
    """At most this wide, in the fonts that are likely."""
    return size * (0.65 * len(text) + 0.35 * sum(letter in "→←" or is_wide(letter) for letter in text))


_NARROW, _BROAD = frozenset("fijlrtI.,:;'|()[] ·-/"), frozenset("mwMW%@→←×=+<>")


def drawn_width(text: str, size: float) -> float:
    """About as wide as it is drawn, for what stands in a row with others."""
    return size * sum(map(_ems, text))


def _ems(letter: str) -> float:
    if is_wide(letter):
        return 1.0
    if letter in _NARROW:
        return 0.36
    return 0.9 if letter in _BROAD else 0.7 if letter.isupper() or letter.isdigit() else 0.61


def is_wide(letter: str) -> bool:
    """As wide as it is high, like those of Chinese."""
    return unicodedata.east_asian_width(letter) in "WF"
