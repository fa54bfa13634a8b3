"""Colours: one a kind of span (Okabe and Ito's, which colour-blind people tell apart), a scale of them for chunks.

Colour is never alone: boxes carry a letter and a number, and kinds that could be taken for another have a pattern.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ink:
    """How one kind of span looks.

    light, dark: its colour in either theme; pattern: ``bar`` along the bottom, ``hatch``, ``dots`` or nothing; ansi:
    the terminal's colours (background, then text). Its name is the word ``ink.KIND``.
    """

    light: str
    dark: str
    pattern: str
    ansi: str


INKS = {
    "F": Ink("#0072B2", "#2F8FCC", "", "44;97"),
    "B": Ink("#009E73", "#14B386", "bar", "42;30"),
    "I": Ink("#009E73", "#14B386", "bar", "42;30"),
    "W": Ink("#CC79A7", "#D68DB5", "dots", "45;97"),
    "R": Ink("#0072B2", "#2F8FCC", "hatch", "46;30"),
    "O": Ink("#D55E00", "#E8772A", "", "41;97"),
    "S": Ink("#B4BCC7", "#5C6775", "hatch", "107;30"),
    "L": Ink("#4A5462", "#A3AFBD", "", "100;97"),
    "send": Ink("#E69F00", "#EBAA1E", "", "43;30"),
    "recv": Ink("#F4CE79", "#F1D089", "dots", "43;30"),
    "reduce": Ink("#56B4E9", "#6BBEEC", "bar", "46;30"),
    "collective": Ink("#E69F00", "#EBAA1E", "hatch", "43;30"),
    "other": Ink("#8C96A3", "#8490A0", "", "47;30"),
}

_VIRIDIS = ("#472D7B", "#3B528B", "#2C728E", "#21918C", "#28AE80", "#5EC962", "#ADDC30", "#FDE725")


def mix(colour: str, other: str, share: float) -> str:
    """``share`` (0 to 1) of ``other`` in ``colour``."""
    pairs = zip(_channels(colour), _channels(other), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02X}" for a, b in pairs)


def shade(colour: str, chunk: int, chunks: int) -> str:
    """The first model chunk of a rank is dark, the last one light."""
    return mix(colour, "#FFFFFF", 0.5 * chunk / (chunks - 1)) if chunks > 1 else colour


def scale(index: int, count: int) -> str:
    """The colour of one of ``count`` things in order, dark to light (viridis, without its end that is nearly black)."""
    place = index / max(1, count - 1) * (len(_VIRIDIS) - 1)
    low = min(int(place), len(_VIRIDIS) - 2)
    return mix(_VIRIDIS[low], _VIRIDIS[low + 1], place - low)


def text_on(colour: str) -> str:
    """Black or white, whichever is easier to read on ``colour``."""
    luminance = _luminance(colour)
    return "#FFFFFF" if 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05 else "#000000"


def turned(colour: str) -> str:
    """What CSS's ``invert(1) hue-rotate(180deg)`` makes of it: light for dark, of nearly the same hue."""
    red, green, blue = (255 - c for c in _channels(colour))
    rows = ((-0.574, 1.43, 0.144), (0.426, 0.43, 0.144), (0.426, 1.43, -0.856))
    found = (round(r * red + g * green + b * blue) for r, g, b in rows)
    return "#" + "".join(f"{min(255, max(0, c)):02X}" for c in found)


def _channels(colour: str) -> list[int]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def _luminance(colour: str) -> float:
    linear = [(c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4) for c in _channels(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
