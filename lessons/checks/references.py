"""What formulas are compared with: examples, the library's own answers, and the mistakes that learners make."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from collectives.contract import contract_of
from collectives.cost import Machine, predict
from collectives.proof import prove
from collectives.registry import find

Example: TypeAlias = tuple[Any, ...]
Points: TypeAlias = Sequence[tuple[float, float]]


def close(value: object, other: object, example: Example) -> bool:
    """Equal numbers, up to rounding."""
    return _near(value, other, 1e-9)


@dataclass(frozen=True)
class Reference:
    """One formula.

    answer: the library's. same: whether two values mean the same for an example; it takes whatever a learner returns.
    mistakes: id of the sentence (after ``formula.``) → the formula that is mistaken so.
    """

    examples: tuple[Example, ...]
    answer: Callable[..., Any]
    mistakes: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    same: Callable[[object, object, Example], bool] = close


def _near(value: object, other: object, tolerance: float) -> bool:
    try:
        return math.isclose(float(value), float(other), rel_tol=tolerance, abs_tol=1e-300)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return False


def _near_pairs(value: object, other: object, example: Example) -> bool:
    """Equal up to what a less careful way to sum may lose."""
    try:
        values, others = list(value), list(other)  # type: ignore[call-overload]
    except TypeError:
        return False
    return len(values) == len(others) and all(_near(a, b, 1e-6) for a, b in zip(values, others, strict=True))


def crossings(order: Sequence[int], hosts: Sequence[int]) -> int:
    """How often a ring in that order of ranks goes from one host to another."""
    return sum(hosts[a] != hosts[b] for a, b in zip(order, [*order[1:], *order[:1]], strict=True))


def _same_order(value: object, other: object, example: Example) -> bool:
    """The same numbers, or two orders of all ranks that cross equally often."""
    (hosts,) = example
    try:
        orders = [list(value), list(other)]  # type: ignore[call-overload]
        if orders[0] == orders[1]:
            return True
        if any(sorted(order) != list(range(len(hosts))) for order in orders):
            return False
        return crossings(orders[0], hosts) == crossings(orders[1], hosts)
    except (TypeError, ValueError, RuntimeError):
        return False


def _root_bytes(size: int, nbytes: int) -> int:
    """Every message of the naive all-reduce begins or ends at rank 0, and is the whole buffer."""
    return prove(find("all_reduce", "naive"), size).messages * nbytes


def _ring_time(size: int, nbytes: float, alpha: float, beta: float) -> float:
    return predict(find("all_reduce", "ring"), size, nbytes, Machine(alpha, beta))


def _bus_bandwidth(size: int, nbytes: float, seconds: float) -> float:
    return nbytes / seconds / 1e9 * contract_of("all_reduce").factor(size)


def _fit(points: Points) -> tuple[float, float]:
    beta, alpha = statistics.linear_regression(*zip(*points, strict=True))
    return alpha, beta


def _through_origin(points: Points) -> tuple[float, float]:
    return 0.0, sum(b * t for b, t in points) / sum(b * b for b, _ in points)


def _mean_rate(points: Points) -> tuple[float, float]:
    return 0.0, statistics.fmean(t / b for b, t in points)


def _two_points(points: Points) -> tuple[float, float]:
    (b0, t0), (b1, t1) = points[0], points[-1]
    beta = (t1 - t0) / (b1 - b0)
    return t0 - beta * b0, beta


def _least_time(points: Points) -> tuple[float, float]:
    return min(t for _, t in points), _fit(points)[1]


def _bandwidth(points: Points) -> tuple[float, float]:
    alpha, beta = _fit(points)
    return alpha, 1 / beta


def _one_each_in_turn(hosts: Sequence[int]) -> list[int]:
    seen: dict[int, int] = {}
    turns = []
    for rank, host in enumerate(hosts):
        turns.append((seen.setdefault(host, 0), rank))
        seen[host] += 1
    return [rank for _, rank in sorted(turns)]


def _places(hosts: Sequence[int]) -> list[int]:
    order = _ring_order(hosts)
    return [order.index(rank) for rank in range(len(hosts))]


def _ring_order(hosts: Sequence[int]) -> list[int]:
    """Any order in which each host's ranks stand together crosses once out of each host, which is the least."""
    return sorted(range(len(hosts)), key=hosts.__getitem__)


_MEASURED = (
    ((1024, 12.3e-6), (2048, 13.1e-6), (4096, 15.2e-6), (8192, 18.8e-6), (16384, 27.1e-6)),
    ((1000, 4.0e-5), (3000, 4.5e-5), (5000, 4.4e-5), (9000, 6.1e-5)),
    ((4096, 91e-6), (512, 80e-6), (65536, 210e-6), (16384, 112e-6)),
)

REFERENCES: Mapping[str, Reference] = {
    "root_bytes": Reference(
        examples=((2, 8), (3, 100), (4, 1024), (5, 1000), (8, 1 << 20), (1, 64)),
        answer=_root_bytes,
        mistakes={
            "root_bytes.one_way": lambda n, s: (n - 1) * s,
            "root_bytes.itself": lambda n, s: 2 * n * s,
            "root_bytes.everyone": lambda n, s: 4 * (n - 1) * s,
            "root_bytes.one_peer": lambda n, s: 2 * s,
            "root_bytes.ring": lambda n, s: 2 * (n - 1) * s / n,
        },
    ),
    "ring_time": Reference(
        examples=(
            (4, 1 << 20, 1e-5, 1e-9),
            (3, 1000, 2e-6, 4e-10),
            (8, 1 << 30, 3e-6, 1 / 50e9),
            (5, 7, 1e-4, 1e-8),
            (2, 4096, 0.0, 1e-9),
            (64, 1 << 26, 5e-6, 0.0),
            (1, 1 << 20, 1e-5, 1e-9),
        ),
        answer=_ring_time,
        mistakes={
            "ring_time.n_times": lambda n, s, a, b: 2 * n * a + 2 * (n - 1) / n * s * b,
            "ring_time.n_everywhere": lambda n, s, a, b: 2 * n * (a + s / n * b),
            "ring_time.alpha_once": lambda n, s, a, b: a + 2 * (n - 1) / n * s * b,
            "ring_time.no_alpha": lambda n, s, a, b: 2 * (n - 1) / n * s * b,
            "ring_time.half": lambda n, s, a, b: (n - 1) * (a + s / n * b),
            "ring_time.half_alpha": lambda n, s, a, b: (n - 1) * a + 2 * (n - 1) / n * s * b,
            "ring_time.half_bytes": lambda n, s, a, b: 2 * (n - 1) * a + (n - 1) / n * s * b,
            "ring_time.whole": lambda n, s, a, b: 2 * (n - 1) * (a + s * b),
            "ring_time.no_share": lambda n, s, a, b: 2 * (n - 1) * a + 2 * s * b,
        },
    ),
    "bus_bandwidth": Reference(
        examples=((4, 1 << 20, 1e-3), (8, 1 << 30, 5.2e-3), (2, 1000, 1e-6), (3, 1 << 26, 0.5), (64, 12345, 2e-4)),
        answer=_bus_bandwidth,
        mistakes={
            "bus_bandwidth.algbw": lambda n, s, t: s / t / 1e9,
            "bus_bandwidth.gib": lambda n, s, t: s / t / 2**30 * 2 * (n - 1) / n,
            "bus_bandwidth.algbw_gib": lambda n, s, t: s / t / 2**30,
            "bus_bandwidth.bytes": lambda n, s, t: s / t * 2 * (n - 1) / n,
            "bus_bandwidth.bits": lambda n, s, t: 8 * s / t / 1e9 * 2 * (n - 1) / n,
            "bus_bandwidth.half": lambda n, s, t: s / t / 1e9 * (n - 1) / n,
            "bus_bandwidth.not_shared": lambda n, s, t: s / t / 1e9 * 2 * (n - 1),
            "bus_bandwidth.twice": lambda n, s, t: s / t / 1e9 * 2,
            "bus_bandwidth.divided": lambda n, s, t: s / t / 1e9 / (2 * (n - 1) / n),
        },
    ),
    "fit": Reference(
        examples=tuple((points,) for points in _MEASURED),
        answer=_fit,
        same=_near_pairs,
        mistakes={
            "fit.swapped": lambda points: _fit(points)[::-1],
            "fit.origin": _through_origin,
            "fit.mean_rate": _mean_rate,
            "fit.two_points": _two_points,
            "fit.least_time": _least_time,
            "fit.bandwidth": _bandwidth,
        },
    ),
    "ring_order": Reference(
        examples=(
            ([0, 1, 2, 0, 1, 2, 0, 1, 2],),
            ([0, 0, 1, 2, 2, 1, 0, 1, 2],),
            ([7, 3, 7, 7, 3, 5, 3],),
            ([1, 0, 1, 0, 1, 0, 1, 0],),
            ([0, 0, 0],),
            ([4],),
        ),
        answer=_ring_order,
        same=_same_order,
        mistakes={
            "ring_order.unchanged": lambda hosts: list(range(len(hosts))),
            "ring_order.in_turn": _one_each_in_turn,
            "ring_order.hosts": lambda hosts: sorted(hosts),
            "ring_order.places": _places,
        },
    ),
}
