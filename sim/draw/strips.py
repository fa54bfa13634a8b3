"""Curves below a Gantt chart, on its time axis: a strip a curve, as an area (memory) or as shades (links)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..replay import Curve
from ..words import Words
from .axis import mean, top, value_text
from .palette import INKS, mix
from .shapes import Line, Rect, Shape, Text

_DARK, _MUTED, _RULE, _EMPTY = "#1B2330", "#5B6675", "#D5DAE1", "#F7F8FA"


def memory_strips(
    shapes: list[Shape],
    curves: Sequence[Curve],
    words: Words,
    x: Callable[[float], float],
    end: float,
    left: float,
    y: float,
) -> float:
    """All on one scale, so that they compare. Returns where the next thing may be drawn."""
    if not curves:
        return y
    height = _height(len(curves))
    full = top(curves)
    heading = words("strip.memory", value=value_text(full, curves[0].unit, words))
    y = _heading(shapes, heading, words("strip.peak"), left, x(end), y)
    for curve in curves:
        peak = max(curve.values, default=0.0)
        shapes.append(Rect(x(0), y, x(end) - x(0), height, _EMPTY))
        outline = [(x(0), y + height)]
        for start, until, value in _steps(curve, end):
            tall = height * value / full
            tip = words("strip.value", name=curve.name, value=value_text(value, curve.unit, words))
            shapes.append(Rect(x(start), y + height - tall, x(until) - x(start), tall, "#A9C9E4", tip=tip))
            outline += [(x(start), y + height - tall), (x(until), y + height - tall)]
        shapes.append(Line(tuple(outline), INKS["F"].light, 1.2))
        if curve.limit:
            limit = y + height - height * curve.limit / full
            shapes.append(Line(((x(0), limit), (x(end), limit)), INKS["O"].light, 1.0, dashed=True))
        shapes.append(Text(left, y + height / 2, curve.name, min(12.0, height), _DARK))
        most = value_text(peak, curve.unit, words)
        shapes.append(Text(x(end) + 10, y + height / 2, most, min(11.0, height), _DARK))
        y += height + 4
    return y + 12


def heat_strips(
    shapes: list[Shape],
    curves: Sequence[Curve],
    words: Words,
    x: Callable[[float], float],
    end: float,
    left: float,
    y: float,
) -> float:
    """The darker, the nearer to the link's limit; the number is the average."""
    if not curves:
        return y
    height = min(18.0, _height(len(curves)))
    y = _heading(shapes, words("strip.links"), words("strip.mean"), left, x(end), y)
    for curve in curves:
        limit = curve.limit or top([curve])
        shapes.append(Rect(x(0), y, x(end) - x(0), height, _EMPTY, "", _RULE))
        for start, until, value in _steps(curve, end):
            if value:
                shown, share = value_text(value, curve.unit, words), f"{value / limit:.0%}"
                tip = words("strip.share", name=curve.name, value=shown, share=share)
                fill = mix("#FFF3D6", "#9A3D00", min(1.0, value / limit))
                shapes.append(Rect(x(start), y, x(until) - x(start), height, fill, tip=tip))
        shapes.append(Text(left, y + height / 2, curve.name, min(12.0, height), _DARK))
        shapes.append(Text(x(end) + 10, y + height / 2, f"{mean(curve, end) / limit:.1%}", min(11.0, height), _DARK))
        y += height + 3
    return y + 12


def _heading(shapes: list[Shape], text: str, right: str, left: float, end: float, y: float) -> float:
    shapes += [Text(left, y + 8, text, 12, _DARK, bold=True), Text(end + 10, y + 8, right, 11, _MUTED)]
    return y + 22


def _height(count: int) -> float:
    return 26.0 if count <= 12 else max(10.0, 320 / count)


def _steps(curve: Curve, end: float) -> Iterator[tuple[float, float, float]]:
    for index, (start, value) in enumerate(zip(curve.times, curve.values, strict=True)):
        until = curve.times[index + 1] if index + 1 < len(curve.times) else end
        if until > start:
            yield start, until, value
