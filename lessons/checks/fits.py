"""Lines through points: least squares, and what learners take for it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

from .reference import Example, Reference, near

Points: TypeAlias = Sequence[tuple[float, float]]


def _near_pairs(value: object, other: object, example: Example) -> bool:
    """Equal up to what a less careful way to sum may lose."""
    if isinstance(value, (str, dict, set)):
        return False
    try:
        values, others = list(value), list(other)  # type: ignore[call-overload]
    except TypeError:
        return False
    return len(values) == len(others) and all(near(a, b, 1e-5) for a, b in zip(values, others, strict=True))


def _fit(points: Points) -> tuple[float, float]:
    beta, alpha = statistics.linear_regression(*zip(*points, strict=True))
    return alpha, beta


def _means(points: Points) -> tuple[float, float]:
    return statistics.fmean(b for b, _ in points), statistics.fmean(t for _, t in points)


def _through_origin(points: Points) -> tuple[float, float]:
    return 0.0, sum(b * t for b, t in points) / sum(b * b for b, _ in points)


def _no_means(points: Points) -> tuple[float, float]:
    beta = _through_origin(points)[1]
    b, t = _means(points)
    return t - beta * b, beta


def _mean_rate(points: Points) -> tuple[float, float]:
    return 0.0, statistics.fmean(t / b for b, t in points)


def _two_points(points: Points) -> tuple[float, float]:
    (b0, t0), (b1, t1) = points[0], points[-1]
    beta = (t1 - t0) / (b1 - b0)
    return t0 - beta * b0, beta


def _extremes(points: Points) -> tuple[float, float]:
    return _two_points(sorted(points))


def _least_time(points: Points) -> tuple[float, float]:
    return min(t for _, t in points), _fit(points)[1]


def _bandwidth(points: Points) -> tuple[float, float]:
    alpha, beta = _fit(points)
    return alpha, 1 / beta


def _bandwidth_first(points: Points) -> tuple[float, float]:
    alpha, beta = _fit(points)
    return 1 / beta, alpha


def _slopes(points: Points) -> list[float]:
    return [(t1 - t0) / (b1 - b0) for (b0, t0), (b1, t1) in pairwise(points)]


def _mean_slope(points: Points) -> tuple[float, float]:
    beta = statistics.fmean(_slopes(points))
    return points[0][1] - beta * points[0][0], beta


def _median_slope(points: Points) -> tuple[float, float]:
    beta = statistics.median(_slopes(points))
    return statistics.median(t - beta * b for b, t in points), beta


def _axes(points: Points) -> tuple[float, float]:
    return _fit([(t, b) for b, t in points])


def _inverse(points: Points) -> tuple[float, float]:
    start, slope = _axes(points)
    return -start / slope, 1 / slope


def _one_less(points: Points) -> tuple[float, float]:
    n, beta = len(points), _fit(points)[1]
    b, t = _means(points)
    beta *= n / (n - 1)
    return t - beta * b, beta


def _relative(points: Points) -> tuple[float, float]:
    """Each point's distance is divided by its time."""
    weights = [1 / (t * t) for _, t in points]
    b = statistics.fmean((b for b, _ in points), weights)
    t = statistics.fmean((t for _, t in points), weights)
    together = sum(w * (x - b) * (y - t) for w, (x, y) in zip(weights, points, strict=True))
    beta = together / sum(w * (x - b) ** 2 for w, (x, _) in zip(weights, points, strict=True))
    return t - beta * b, beta


def _logarithms(points: Points) -> tuple[float, float]:
    return _fit([(math.log(b), math.log(t)) for b, t in points])


FIT = Reference(
    examples=(
        ([(1024, 12.3e-6), (2048, 13.1e-6), (4096, 15.2e-6), (8192, 18.8e-6), (16384, 27.1e-6)],),
        ([(1000, 4.0e-5), (3000, 4.5e-5), (5000, 4.4e-5), (9000, 6.1e-5)],),
        ([(4096, 91e-6), (512, 80e-6), (65536, 210e-6), (16384, 112e-6)],),
    ),
    answer=_fit,
    kind="pair",
    same=_near_pairs,
    mistakes={
        "formula.fit.swapped": lambda points: _fit(points)[::-1],
        "formula.fit.origin": _through_origin,
        "formula.fit.mean_rate": _mean_rate,
        "formula.fit.two_points": _two_points,
        "formula.fit.extremes": _extremes,
        "formula.fit.least_time": _least_time,
        "formula.fit.bandwidth": _bandwidth,
        "formula.fit.bandwidth_first": _bandwidth_first,
        "formula.fit.no_means": _no_means,
        "formula.fit.mean_slope": _mean_slope,
        "formula.fit.median_slope": _median_slope,
        "formula.fit.axes": _axes,
        "formula.fit.inverse": _inverse,
        "formula.fit.one_less": _one_less,
        "formula.fit.relative": _relative,
        "formula.fit.logarithms": _logarithms,
    },
)
