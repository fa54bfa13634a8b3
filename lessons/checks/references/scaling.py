"""The formulas of lesson 27: a step on n GPUs, how much of them it uses, and where adding more stops to help."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..reference import Reference


def _ring(gpus: int, nbytes: float, alpha: float, beta: float) -> float:
    """As :func:`collectives.cost.predict` has it for the ring; tests compare the two."""
    return 2 * (gpus - 1) * (alpha + nbytes / gpus * beta)


def _weak(gpus: int, compute: float, nbytes: float, alpha: float, beta: float) -> float:
    return compute + max(0.0, _ring(gpus, nbytes, alpha, beta) - 2 / 3 * compute)


def _strong(gpus: int, compute: float, nbytes: float, alpha: float, beta: float) -> float:
    return _weak(gpus, compute / gpus, nbytes, alpha, beta)


def _best(compute: float, nbytes: float, alpha: float, beta: float, limit: int) -> int:
    return min(range(1, limit + 1), key=lambda n: _strong(n, compute, nbytes, alpha, beta))


def _hidden(compute: float, nbytes: float, alpha: float, beta: float, limit: int) -> int:
    """The largest number on which nothing of the exchange shows."""
    return max(n for n in range(1, limit + 1) if _strong(n, compute, nbytes, alpha, beta) <= compute / n * (1 + 1e-12))


def _above(share: float) -> Callable[[float, float, float, float, int], int]:
    """The largest number whose efficiency is still so high."""

    def largest(c: float, s: float, a: float, b: float, limit: int) -> int:
        return max(n for n in range(1, limit + 1) if c / n / _strong(n, c, s, a, b) >= share)

    return largest


_WEAK = (
    (8, 0.5, 3.1e9, 8e-6, 1 / 50e9),
    (64, 0.02, 3.1e9, 8e-6, 1 / 400e9),
    (1024, 0.05, 1.4e10, 1e-5, 1 / 50e9),
    (1, 0.3, 1e9, 1e-5, 1e-9),
    (3, 0.1, 6e8, 1e-3, 1e-9),
    (16, 1.5, 2e9, 1e-5, 3e-10),
)
_STRONG = (
    (8, 20.0, 3.1e9, 8e-6, 1 / 50e9),
    (64, 2.0, 3.1e9, 8e-6, 1 / 400e9),
    (512, 30.0, 1.4e10, 1e-5, 1 / 50e9),
    (1, 0.3, 1e9, 1e-5, 1e-9),
    (3, 0.5, 6e8, 1e-3, 1e-9),
    (16, 9.0, 2e9, 1e-5, 3e-10),
)
_RUNS = (
    (22.0, 3.1e9, 8e-6, 1 / 400e9, 4096),
    (22.0, 3.1e9, 8e-6, 1 / 3e9, 300),
    (22.0, 3.1e9, 1e-3, 1 / 400e9, 1000),
    (500.0, 3.1e9, 8e-6, 1 / 400e9, 64),
    (1.0, 5e9, 1e-3, 1e-9, 50),
    (5.0, 1e9, 1e-5, 1 / 50e9, 200),
)

SCALING: Mapping[str, Reference] = {
    "weak_time": Reference(
        examples=_WEAK,
        answer=_weak,
        mistakes={
            "scaling.weak_time.no_overlap": lambda n, c, s, a, b: c + _ring(n, s, a, b),
            "scaling.weak_time.whole_compute": lambda n, c, s, a, b: max(c, _ring(n, s, a, b)),
            "scaling.weak_time.all_hidden": lambda n, c, s, a, b: c,
            "scaling.weak_time.under_forward": lambda n, c, s, a, b: c + max(0.0, _ring(n, s, a, b) - c / 3),
            "scaling.weak_time.half": lambda n, c, s, a, b: c + max(0.0, _ring(n, s, a, b) - c / 2),
            "scaling.weak_time.no_forward": lambda n, c, s, a, b: max(2 / 3 * c, _ring(n, s, a, b)),
            "scaling.weak_time.negative": lambda n, c, s, a, b: c + _ring(n, s, a, b) - 2 / 3 * c,
            "scaling.weak_time.one_walk": lambda n, c, s, a, b: c + max(0.0, _ring(n, s, a, b) / 2 - 2 / 3 * c),
            "scaling.weak_time.whole_buffers": lambda n, c, s, a, b: (
                c + max(0.0, 2 * (n - 1) * (a + s * b) - 2 / 3 * c)
            ),
            "scaling.weak_time.no_alpha": lambda n, c, s, a, b: _weak(n, c, s, 0.0, b),
            "scaling.weak_time.alpha_once": lambda n, c, s, a, b: c + max(0.0, a + 2 * (n - 1) / n * s * b - 2 / 3 * c),
            "scaling.weak_time.strong": _strong,
        },
    ),
    "weak_efficiency": Reference(
        examples=_WEAK,
        answer=lambda n, c, s, a, b: c / _weak(n, c, s, a, b),
        mistakes={
            "scaling.weak_efficiency.upside_down": lambda n, c, s, a, b: _weak(n, c, s, a, b) / c,
            "scaling.weak_efficiency.speedup": lambda n, c, s, a, b: n * c / _weak(n, c, s, a, b),
            "scaling.weak_efficiency.strong": lambda n, c, s, a, b: c / (n * _weak(n, c, s, a, b)),
            "scaling.weak_efficiency.lost": lambda n, c, s, a, b: 1 - c / _weak(n, c, s, a, b),
            "scaling.weak_efficiency.percent": lambda n, c, s, a, b: 100 * c / _weak(n, c, s, a, b),
            "scaling.weak_efficiency.ratio": lambda n, c, s, a, b: c / (c + _ring(n, s, a, b)),
        },
    ),
    "strong_time": Reference(
        examples=_STRONG,
        answer=_strong,
        mistakes={
            "scaling.strong_time.shared_bytes": lambda n, c, s, a, b: _weak(n, c / n, s / n, a, b),
            "scaling.strong_time.all_shared": lambda n, c, s, a, b: _weak(n, c, s, a, b) / n,
            "scaling.strong_time.weak": _weak,
            "scaling.strong_time.ideal": lambda n, c, s, a, b: c / n,
            "scaling.strong_time.no_overlap": lambda n, c, s, a, b: c / n + _ring(n, s, a, b),
            "scaling.strong_time.whole_backward": lambda n, c, s, a, b: c / n + max(0.0, _ring(n, s, a, b) - 2 / 3 * c),
        },
    ),
    "strong_efficiency": Reference(
        examples=_STRONG,
        answer=lambda n, c, s, a, b: c / (n * _strong(n, c, s, a, b)),
        mistakes={
            "scaling.strong_efficiency.speedup": lambda n, c, s, a, b: c / _strong(n, c, s, a, b),
            "scaling.strong_efficiency.upside_down": lambda n, c, s, a, b: n * _strong(n, c, s, a, b) / c,
            "scaling.strong_efficiency.weak": lambda n, c, s, a, b: c / _weak(n, c, s, a, b),
            "scaling.strong_efficiency.lost": lambda n, c, s, a, b: 1 - c / (n * _strong(n, c, s, a, b)),
            "scaling.strong_efficiency.multiplied": lambda n, c, s, a, b: n * c / _strong(n, c, s, a, b),
            "scaling.strong_efficiency.percent": lambda n, c, s, a, b: 100 * c / (n * _strong(n, c, s, a, b)),
        },
    ),
    "hidden_gpus": Reference(
        examples=_RUNS,
        answer=_hidden,
        mistakes={
            "scaling.hidden_gpus.limit": lambda c, s, a, b, limit: limit,
            "scaling.hidden_gpus.whole_compute": lambda c, s, a, b, limit: _hidden(1.5 * c, s, a, b, limit),
            "scaling.hidden_gpus.forward": lambda c, s, a, b, limit: _hidden(c / 2, s, a, b, limit),
            "scaling.hidden_gpus.weak": lambda c, s, a, b, limit: max(
                n for n in range(1, limit + 1) if _ring(n, s, a, b) <= 2 / 3 * c
            ),
            "scaling.hidden_gpus.fastest": _best,
            "scaling.hidden_gpus.first_shown": lambda c, s, a, b, limit: _hidden(c, s, a, b, limit) + 1,
            "scaling.hidden_gpus.shared_bytes": lambda c, s, a, b, limit: max(
                n for n in range(1, limit + 1) if _ring(n, s / n, a, b) <= 2 / 3 * c / n
            ),
            "scaling.hidden_gpus.half": _above(0.5),
            "scaling.hidden_gpus.no_overlap": lambda c, s, a, b, limit: 1,
        },
    ),
    "fastest_gpus": Reference(
        examples=_RUNS,
        answer=_best,
        mistakes={
            "scaling.fastest_gpus.limit": lambda c, s, a, b, limit: limit,
            "scaling.fastest_gpus.hidden": _hidden,
            "scaling.fastest_gpus.half": _above(0.5),
            "scaling.fastest_gpus.one_more": lambda c, s, a, b, limit: _best(c, s, a, b, limit) + 1,
            "scaling.fastest_gpus.before_limit": lambda c, s, a, b, limit: min(limit - 1, _best(c, s, a, b, limit)),
            "scaling.fastest_gpus.seconds": lambda c, s, a, b, limit: min(
                _strong(n, c, s, a, b) for n in range(1, limit + 1)
            ),
            "scaling.fastest_gpus.weak": lambda c, s, a, b, limit: min(
                range(1, limit + 1), key=lambda n: _weak(n, c, s, a, b)
            ),
            "scaling.fastest_gpus.powers": lambda c, s, a, b, limit: min(
                (1 << power for power in range(limit.bit_length())), key=lambda n: _strong(n, c, s, a, b)
            ),
            "scaling.fastest_gpus.no_overlap": lambda c, s, a, b, limit: min(
                range(1, limit + 1), key=lambda n: c / n + _ring(n, s, a, b)
            ),
        },
    ),
}
