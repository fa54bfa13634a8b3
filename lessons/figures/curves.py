"""Curves over two axes; each has its own mark and its name."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from sim.draw.palette import text_on
from sim.draw.shapes import Circle, Line, Picture, Rect, Shape, Text, drawn_width, text_width

from .axis import Axis

INK, MUTED, RULE = "#1B2330", "#5B6675", "#E3E7EC"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#7A5C00", "#56B4E9")  # Okabe and Ito's, the yellow darker
_LEFT, _TOP, _WIDTH, _HEIGHT, _STRIP = 84.0, 56.0, 560.0, 300.0, 22.0
_MARKS = 17  # on a curve

Path = Sequence[tuple[float, float]]
Box = tuple[float, float, float, float]  # left, top, right, bottom

_NEAR = 14.0  # pixels from a point to its name, up or down, without a line between them
_PLACES = tuple((across, up) for far in (_NEAR, 36.0, 60.0) for up in (-far, far) for across in (-far, far))


def curves(
    places: Sequence[float],
    rows: Mapping[str, Sequence[float]],
    title: str,
    axes: tuple[Axis, Axis],
    points: Mapping[str, tuple[float, float]] | None = None,
    fastest: str = "",
) -> Picture:
    """rows: a number at each place, by the name of the curve. axes: below and at the left. points: single ones, with
    their names. fastest: what stands beside a strip that says which curve is lowest where; empty: there is none."""
    below, left = axes
    top = _TOP + 16 * bool(left.name)
    foot = top + _HEIGHT
    end = foot + (_STRIP + 10) * bool(fastest)

    def x(place: float) -> float:
        return _LEFT + _WIDTH * below.share(place)

    def y(value: float) -> float:
        return foot - _HEIGHT * left.share(value)

    shapes: list[Shape] = [Text(20, 26, title, 15, INK, bold=True)]
    if left.name:
        shapes.append(Text(20, 50, left.name, 12, MUTED))
    for tick in left.ticks:
        shapes.append(Line(((_LEFT, y(tick)), (_LEFT + _WIDTH, y(tick))), RULE))
        shapes.append(Text(_LEFT - 8, y(tick), left.show(tick), 12, MUTED, "end"))
    for tick in below.ticks:
        shapes.append(Line(((x(tick), top), (x(tick), end + 4)), RULE))
        shapes.append(Text(x(tick), end + 16, below.show(tick), 12, MUTED, "middle"))
    if below.name:
        shapes.append(Text(_LEFT + _WIDTH / 2, end + 40, below.name, 12, MUTED, "middle"))
    lines = [[(x(place), y(value)) for place, value in zip(places, row, strict=True)] for row in rows.values()]
    for number, line in enumerate(lines):
        shapes += _curve(line, number)
    names = list(rows)
    for name, at in _apart({name: y(rows[name][-1]) for name in names}):
        number = names.index(name)
        shapes += [_line([(_LEFT + _WIDTH + 14, at), (_LEFT + _WIDTH + 38, at)], number)]
        shapes += [_mark(_LEFT + _WIDTH + 26, at, number), Text(_LEFT + _WIDTH + 46, at, name, 13, INK)]
    taken: list[Box] = [(20, 40, 20 + text_width(left.name, 12), 60)] if left.name else []
    for name, (place, value) in (points or {}).items():
        shapes += _point(name, x(place), y(value), (_TOP - 16, foot), taken, lines)
    if fastest:
        shapes += _fastest(places, rows, x, foot + 10, fastest)
    right = max(text_width(name, 13) for name in names)
    what = "; ".join(
        f"{below.show(places[i])}: {', '.join(f'{name} {left.show(row[i])}' for name, row in rows.items())}"
        for i in spread(len(places))
    )
    return Picture(_LEFT + _WIDTH + 58 + right, end + (56 if below.name else 34), title, what, shapes)


def _point(
    name: str, x: float, y: float, inside: tuple[float, float], taken: list[Box], lines: Sequence[Path]
) -> Iterator[Shape]:
    """A ring, and its name where that touches no curve and no other name; a thin line leads to one that is far off."""
    width = text_width(name, 12)

    def box(across: float, up: float) -> Box:
        left = x + across - width * (across < 0)
        return left - 3, y + up - 9, left + width + 3, y + up + 9

    free = (at for at in _PLACES if _is_free(box(*at), inside, taken, lines))
    across, up = next(free, _PLACES[0])
    taken.append(box(across, up))
    if abs(up) > _NEAR:
        yield Line(((x, y), (x + across, y + up)), MUTED)
    yield Circle(x, y, 5, "#FFFFFF", INK)
    at, drawn = x + across + math.copysign(2, across), drawn_width(name, 12)
    yield Rect(at - drawn * (across < 0), y + up - 8, drawn, 16, "#FFFFFF")  # no rule goes through the letters
    yield Text(at, y + up, name, 12, INK, "end" if across < 0 else "start")


def _is_free(box: Box, inside: tuple[float, float], taken: Sequence[Box], lines: Sequence[Path]) -> bool:
    """Whether it is inside of the picture, touches no other box, and no line goes through it."""
    left, top, right, bottom = box
    if left < _LEFT or right > _LEFT + _WIDTH or top < inside[0] or bottom > inside[1]:
        return False
    if any(left < one[2] and one[0] < right and top < one[3] and one[1] < bottom for one in taken):
        return False
    return not any(left < x < right and top < y < bottom for line in lines for x, y in _along(line))


def _along(line: Path) -> Iterator[tuple[float, float]]:
    """Places on it, a few pixels from each other."""
    for (x, y), (to_x, to_y) in pairwise(line):
        count = 1 + int(math.hypot(to_x - x, to_y - y) / 3)
        yield from ((x + (to_x - x) * at / count, y + (to_y - y) * at / count) for at in range(count + 1))


def spread(count: int) -> list[int]:
    """Places out of ``count``, evenly and with both ends, as many as there are marks on a curve."""
    most = min(count, _MARKS)
    return [round(at * (count - 1) / max(1, most - 1)) for at in range(most)]


def _curve(points: Sequence[tuple[float, float]], number: int) -> Iterator[Shape]:
    yield _line(points, number)
    for at in spread(len(points)):
        yield _mark(*points[at], number)


def _line(points: Sequence[tuple[float, float]], number: int) -> Line:
    return Line(tuple(points), COLOURS[number % len(COLOURS)], 2, dashed=number % 2 == 1)


def _mark(x: float, y: float, number: int) -> Shape:
    colour = COLOURS[number % len(COLOURS)]
    fill = "#FFFFFF" if number // 2 % 2 else colour
    return Rect(x - 3.5, y - 3.5, 7, 7, fill, "", colour) if number % 2 else Circle(x, y, 4, fill, colour)


def _apart(places: Mapping[str, float]) -> list[tuple[str, float]]:
    """Names at their places, moved down where they would touch."""
    found: list[tuple[str, float]] = []
    for name, at in sorted(places.items(), key=lambda item: item[1]):
        found.append((name, max(at, found[-1][1] + 16) if found else at))
    return found


def _fastest(
    places: Sequence[float],
    rows: Mapping[str, Sequence[float]],
    x: Callable[[float], float],
    top: float,
    words: str,
) -> Iterator[Shape]:
    """A strip below the curves: which one is lowest where."""
    names = list(rows)
    best = [min(names, key=lambda name: rows[name][at]) for at in range(len(places))]
    yield Text(_LEFT - 8, top + _STRIP / 2, words, 12, MUTED, "end")
    start = 0
    for at in range(1, len(places) + 1):
        if at < len(places) and best[at] == best[start]:
            continue
        left = x(places[start]) if not start else x(math.sqrt(places[start - 1] * places[start]))
        right = x(places[-1]) if at == len(places) else x(math.sqrt(places[at - 1] * places[at]))
        colour = COLOURS[names.index(best[start]) % len(COLOURS)]
        yield Rect(left, top, right - left, _STRIP, colour, "", "#FFFFFF")
        if text_width(best[start], 12) < right - left:
            yield Text((left + right) / 2, top + _STRIP / 2, best[start], 12, text_on(colour), "middle", True)
        start = at
