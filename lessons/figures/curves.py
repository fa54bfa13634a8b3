"""Curves on two logarithmic axes, times over sizes unless told otherwise; each has its own mark and its name."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from sim.draw.palette import text_on
from sim.draw.shapes import Circle, Line, Picture, Rect, Shape, Text, text_width
from sim.units import show_bytes, show_time

if TYPE_CHECKING:
    from ..catalogue import Catalogue

INK, MUTED, RULE = "#1B2330", "#5B6675", "#E3E7EC"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#7A5C00", "#56B4E9")  # Okabe and Ito's, the yellow darker
_LEFT, _TOP, _WIDTH, _HEIGHT, _STRIP = 74.0, 56.0, 560.0, 300.0, 22.0


Show = Callable[[float], str]
Path = Sequence[tuple[float, float]]
Box = tuple[float, float, float, float]  # left, top, right, bottom

_NEAR = 12.0  # pixels from a point to its name, up or down, without a line between them
_PLACES = tuple((across, up) for far in (_NEAR, 36.0, 60.0) for up in (-far, far) for across in (-far, far))


def curves(
    sizes: Sequence[float],
    times: Mapping[str, Sequence[float]],
    title: str,
    say: Catalogue,
    show: tuple[Show, Show] = (show_bytes, show_time),
    points: Mapping[str, tuple[float, float]] | None = None,
    fastest: bool = True,
) -> Picture:
    """show: how numbers are written below and at the left. points: single ones, with their names. fastest: a strip
    below says which curve is lowest where."""
    low, high = _decades([*(at for row in times.values() for at in row), *(at for _, at in (points or {}).values())])
    show_x, show_y = show

    def x(nbytes: float) -> float:
        return _LEFT + _WIDTH * math.log(nbytes / sizes[0]) / math.log(sizes[-1] / sizes[0])

    def y(seconds: float) -> float:
        return _TOP + _HEIGHT * (1 - (math.log10(seconds) - low) / (high - low))

    shapes: list[Shape] = [Text(20, 26, title, 15, INK, bold=True)]
    for power in range(low, high + 1):
        at = y(10.0**power)
        shapes.append(Line(((_LEFT, at), (_LEFT + _WIDTH, at)), RULE))
        shapes.append(Text(_LEFT - 8, at, show_y(10.0**power), 12, MUTED, "end"))
    for nbytes in _ticks(sizes):
        shapes.append(Line(((x(nbytes), _TOP), (x(nbytes), _TOP + _HEIGHT + _STRIP + 14)), RULE))
        shapes.append(Text(x(nbytes), _TOP + _HEIGHT + _STRIP + 24, show_x(nbytes), 12, MUTED, "middle"))
    lines = [[(x(nbytes), y(seconds)) for nbytes, seconds in zip(sizes, row, strict=True)] for row in times.values()]
    for number, line in enumerate(lines):
        shapes += curve(line, number)
    names = list(times)
    for name, at in apart({name: y(times[name][-1]) for name in names}):
        shapes.append(Text(_LEFT + _WIDTH + 14, at, name, 13, COLOURS[names.index(name) % len(COLOURS)], bold=True))
    taken: list[Box] = []
    for name, (across, up) in (points or {}).items():
        shapes += _point(name, x(across), y(up), taken, lines)
    if len(times) > 1 and fastest:
        shapes += _fastest(sizes, times, x, say("page.sweep.fastest"))
    right = max(text_width(name, 13) for name in times)
    what = "; ".join(
        f"{show_x(nbytes)}: {', '.join(f'{name} {show_y(row[i])}' for name, row in times.items())}"
        for i, nbytes in enumerate(sizes)
    )
    return Picture(_LEFT + _WIDTH + 30 + right, _TOP + _HEIGHT + _STRIP + 44, title, what, shapes)


def _point(name: str, x: float, y: float, taken: list[Box], lines: Sequence[Path]) -> Iterator[Shape]:
    """A ring, and its name where that touches no curve and no other name; a thin line leads to one that is far off."""
    width = text_width(name, 12)

    def box(across: float, up: float) -> Box:
        left = x + across - width * (across < 0)
        return left - 3, y + up - 9, left + width + 3, y + up + 9

    free = (at for at in _PLACES if _is_free(box(*at), taken, lines))
    across, up = next(free, _PLACES[0])
    taken.append(box(across, up))
    if abs(up) > _NEAR:
        yield Line(((x, y), (x + across, y + up)), MUTED)
    yield Circle(x, y, 5, "#FFFFFF", INK)
    yield Text(x + across + math.copysign(2, across), y + up, name, 12, INK, "end" if across < 0 else "start")


def _is_free(box: Box, taken: Sequence[Box], lines: Sequence[Path]) -> bool:
    """Whether it is inside of the picture, touches no other box, and no line goes through it."""
    left, top, right, bottom = box
    if left < _LEFT or right > _LEFT + _WIDTH or bottom > _TOP + _HEIGHT:
        return False
    if any(left < one[2] and one[0] < right and top < one[3] and one[1] < bottom for one in taken):
        return False
    return not any(left < x < right and top < y < bottom for line in lines for x, y in _along(line))


def _along(line: Path) -> Iterator[tuple[float, float]]:
    """Places on it, a few pixels from each other."""
    for (x, y), (to_x, to_y) in pairwise(line):
        count = 1 + int(math.hypot(to_x - x, to_y - y) / 3)
        yield from ((x + (to_x - x) * at / count, y + (to_y - y) * at / count) for at in range(count + 1))


def _decades(seconds: Sequence[float]) -> tuple[int, int]:
    """Powers of ten around all times."""
    low, high = math.floor(math.log10(min(seconds))), math.ceil(math.log10(max(seconds)))
    return low, max(high, low + 1)


def _ticks(sizes: Sequence[float]) -> list[float]:
    """Every size whose label has room."""
    apart = -(-len(sizes) * 70 // int(_WIDTH))
    return list(sizes[::apart])


def curve(points: Sequence[tuple[float, float]], number: int) -> Iterator[Shape]:
    colour = COLOURS[number % len(COLOURS)]
    yield Line(tuple(points), colour, 2, dashed=number % 2 == 1)
    for x, y in points:
        hollow = number // 2 % 2 == 1
        fill = "#FFFFFF" if hollow else colour
        if number % 2:
            yield Rect(x - 3.5, y - 3.5, 7, 7, fill, "", colour)
        else:
            yield Circle(x, y, 4, fill, colour)


def apart(places: Mapping[str, float]) -> list[tuple[str, float]]:
    """Names at their places, moved down where they would touch."""
    found: list[tuple[str, float]] = []
    for name, at in sorted(places.items(), key=lambda item: item[1]):
        found.append((name, max(at, found[-1][1] + 16) if found else at))
    return found


def _fastest(
    sizes: Sequence[float], times: Mapping[str, Sequence[float]], x: Callable[[float], float], words: str
) -> Iterator[Shape]:
    """A strip below the curves: which algorithm wins where."""
    names = list(times)
    best = [min(names, key=lambda name: times[name][at]) for at in range(len(sizes))]
    top = _TOP + _HEIGHT + 10
    yield Text(_LEFT - 8, top + _STRIP / 2, words, 12, MUTED, "end")
    start = 0
    for at in range(1, len(sizes) + 1):
        if at < len(sizes) and best[at] == best[start]:
            continue
        left = x(sizes[start]) if not start else x(math.sqrt(sizes[start - 1] * sizes[start]))
        right = x(sizes[-1]) if at == len(sizes) else x(math.sqrt(sizes[at - 1] * sizes[at]))
        colour = COLOURS[names.index(best[start]) % len(COLOURS)]
        yield Rect(left, top, right - left, _STRIP, colour, "", "#FFFFFF")
        if text_width(best[start], 12) < right - left:
            yield Text((left + right) / 2, top + _STRIP / 2, best[start], 12, text_on(colour), "middle", True)
        start = at
