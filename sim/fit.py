"""A robust linear fit that knows what it does not know.

Rows are measured times, columns are constants with a non-negative value and a factor in every row. What is minimised::

    Σ ρ((predicted − measured) / (σ · measured))  +  Σ (constant / start − 1)²

The first sum is over relative errors, ρ forgives outliers (Cauchy's, by iterated reweighting), and σ is estimated from
the errors themselves. The second draws a constant to where it started if the rows say nothing of it. Source: Tarantola,
"Inverse Problem Theory", 2005, chapter 3.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

NOISE = 0.003  # relative; no clock is better
KNOWN = 0.35  # of a constant's value: if it is more uncertain than that, the rows do not determine it
FORGIVEN = 2.5  # errors of so many σ count half


@dataclass(frozen=True)
class Fitted:
    """values, uncertainty (one standard deviation): of each column; predicted, left_out: each row's time, with all rows
    and without itself."""

    values: tuple[float, ...]
    uncertainty: tuple[float, ...]
    predicted: tuple[float, ...]
    left_out: tuple[float, ...]

    def known(self, column: int) -> bool:
        return self.uncertainty[column] < KNOWN * self.values[column]


def fit(rows: Sequence[Sequence[float]], times: Sequence[float], start: Sequence[float]) -> Fitted:
    """Fit ``times[i] ≈ Σ rows[i][j] · values[j]``; O(rows · columns²).

    Args:
        times: above 0.
        start: of each column, above 0.
    """
    scaled = [[x * s / t for x, s in zip(row, start, strict=True)] for row, t in zip(rows, times, strict=True)]
    columns = range(len(start))
    free = set(columns)  # the others would be negative, and stay at nothing
    theta = [1.0] * len(start)
    weights = [1.0] * len(times)
    sigma = NOISE
    for turn in range(40):
        theta = _best(scaled, weights, sigma, free, len(start))
        negative = {j for j in free if theta[j] < 0}
        if negative:
            free -= negative
            continue
        errors = [sum(a * b for a, b in zip(row, theta, strict=True)) - 1 for row in scaled]
        spread = max(NOISE, 1.4826 * statistics.median(abs(e) for e in errors))
        fresh = [1 / (1 + (e / (FORGIVEN * spread)) ** 2) for e in errors]
        same = abs(spread - sigma) < 1e-9 and max(abs(a - b) for a, b in zip(fresh, weights, strict=True)) < 1e-6
        weights, sigma = fresh, spread
        if same and turn:
            break
    inverse = _inverse(scaled, weights, sigma, len(start))
    errors = [sum(a * b for a, b in zip(row, theta, strict=True)) - 1 for row in scaled]
    left_out = []
    for row, w, error, time in zip(scaled, weights, errors, times, strict=True):
        leverage = w / sigma**2 * sum(row[j] * inverse[j][k] * row[k] for j in columns for k in columns)
        left_out.append(time * (1 + error / max(1e-9, 1 - leverage)))
    return Fitted(
        tuple(t * s for t, s in zip(theta, start, strict=True)),
        tuple(inverse[j][j] ** 0.5 * start[j] for j in columns),
        tuple(t * (1 + e) for t, e in zip(times, errors, strict=True)),
        tuple(left_out),
    )


def _normal(
    rows: Sequence[Sequence[float]], weights: Sequence[float], sigma: float, columns: Sequence[int]
) -> list[list[float]]:
    return [
        [sum(w * row[j] * row[k] for w, row in zip(weights, rows, strict=True)) / sigma**2 + (j == k) for k in columns]
        for j in columns
    ]


def _inverse(rows: Sequence[Sequence[float]], weights: Sequence[float], sigma: float, count: int) -> list[list[float]]:
    """Of the normal matrix, by Gauss and Jordan; it is positive definite, so the diagonal serves as pivots."""
    matrix = [
        row + [float(i == j) for j in range(count)] for i, row in enumerate(_normal(rows, weights, sigma, range(count)))
    ]
    return _eliminate(matrix, count)


def _best(
    rows: Sequence[Sequence[float]], weights: Sequence[float], sigma: float, free: set[int], count: int
) -> list[float]:
    """The best constants if those that are not free are nothing."""
    columns = sorted(free)
    right = [sum(w * row[j] for w, row in zip(weights, rows, strict=True)) / sigma**2 + 1 for j in columns]
    matrix = [[*row, r] for row, r in zip(_normal(rows, weights, sigma, columns), right, strict=True)]
    found = dict(zip(columns, (row[0] for row in _eliminate(matrix, len(columns))), strict=True))
    return [found.get(j, 0.0) for j in range(count)]


def _eliminate(matrix: list[list[float]], count: int) -> list[list[float]]:
    for i in range(count):
        pivot = matrix[i][i]
        matrix[i] = [x / pivot for x in matrix[i]]
        for j in range(count):
            if j != i and matrix[j][i]:
                matrix[j] = [a - matrix[j][i] * b for a, b in zip(matrix[j], matrix[i], strict=True)]
    return [row[count:] for row in matrix]
