"""Regimes: from which size on a collective goes another way, found in the times of one run.

::

    time     each regime is a line α + β·size
      |           /          fitted to the relative errors of the sizes between two breaks;
      |  ____    /           breaks are where the errors are least (dynamic programming)
      |      ___/
      +-----|---|---- size

How many there are is decided by the Bayesian information criterion: N·log(error²) + constants·log(N), where a break
counts as two, since it was looked for. Source: Bai and Perron, "Computation and analysis of multiple structural change
models", 2003.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from itertools import pairwise

from .fit import NOISE

FEWEST = 3  # sizes in a regime


def regimes(sizes: Sequence[float], times: Sequence[float], most: int = 5) -> list[tuple[list[list[int]], float]]:
    """For 1, 2, … ``most`` regimes: the places of each one's sizes, and the criterion (the least is the best).

    Args:
        sizes: ascending.

    O(most · sizes²).
    """
    count = len(sizes)
    sums = _sums(sizes, times)
    errors = {(i, j): _error(sums[i], sums[j]) for i in range(count) for j in range(i + 1, count + 1)}
    best: list[dict[int, tuple[float, list[int]]]] = [{j: (errors[0, j], [0, j]) for j in range(1, count + 1)}]
    for _ in range(1, most):
        longer: dict[int, tuple[float, list[int]]] = {}
        for j in range(1, count + 1):
            ways = [
                (best[-1][i][0] + errors[i, j], [*best[-1][i][1], j])
                for i in range(FEWEST, j - FEWEST + 1)
                if i in best[-1]
            ]
            if ways:
                longer[j] = min(ways)
        best.append(longer)
    found = []
    for number, ends in enumerate(best, 1):
        if count not in ends:
            break
        breaks = ends[count][1]
        parts = list(pairwise(breaks))
        error = ends[count][0]
        criterion = count * math.log(error / count + NOISE**2) + (4 * number - 2) * math.log(count)
        found.append(([list(range(i, j)) for i, j in parts], criterion))
    return found


Sums = tuple[float, ...]


def _sums(sizes: Sequence[float], times: Sequence[float]) -> list[Sums]:
    """Of the first 0, 1, 2, … sizes, with x = 1/time and y = size/time: Σx², Σxy, Σy², Σx, Σy, Σ1."""
    terms = ((1 / t, s / t) for s, t in zip(sizes, times, strict=True))
    found: list[Sums] = [(0.0,) * 6]
    for x, y in terms:
        found.append(tuple(map(operator.add, found[-1], (x * x, x * y, y * y, x, y, 1.0))))
    return found


def _error(before: Sums, after: Sums) -> float:
    """The least Σ(α·x + β·y − 1)² with α and β from 0 on."""
    a, b, c, d, e, n = map(operator.sub, after, before)
    ways = [(d / a, 0.0), (0.0, e / c)] if c else [(d / a, 0.0)]
    determinant = a * c - b * b
    if determinant > 1e-12 * a * c:
        ways.append(((d * c - e * b) / determinant, (a * e - b * d) / determinant))
    least: float = min(
        a * p * p + 2 * b * p * q + c * q * q - 2 * d * p - 2 * e * q + n for p, q in ways if min(p, q) >= 0
    )
    return max(0.0, least)
