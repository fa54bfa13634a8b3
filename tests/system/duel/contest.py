"""Who is faster: ratios within a round are compared, and a second native contestant tells how noisy the run was."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import torch

from collectives.bench.measure import Stopwatch

Step = Callable[[], object]
RESAMPLES = 2000
FAIR = (0.97, 1.03)  # a run whose null lies outside says nothing


@dataclass(frozen=True)
class Ratio:
    """Of two contestants' times in the same rounds: the median, and its 95 % interval by bootstrap."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, times: Sequence[float], reference: Sequence[float]) -> Ratio:
        ratios = np.asarray(times) / np.asarray(reference)
        chosen = np.random.default_rng(0).choice(ratios, (RESAMPLES, len(ratios)))
        low, high = np.percentile(np.median(chosen, axis=1), [2.5, 97.5])
        return cls(float(np.median(ratios)), float(low), float(high))


def contest(steps: Mapping[str, Step], ours: str, native: str, null: str, rounds: int) -> dict[str, object]:
    """On every rank: milliseconds of each (medians of the slowest rank's), ours / native, and null / native."""
    watch = Stopwatch(torch.device("cpu"), blocking=True)
    calls = list(steps.values())
    watch.iterations(calls, warmup=2, wanted=1)
    timings = watch.rounds(calls, [1] * len(calls), rounds, lambda: None)
    times = {name: timing.seconds for name, timing in zip(steps, timings, strict=True)}
    ratio, beside = Ratio.of(times[ours], times[native]), Ratio.of(times[null], times[native])
    return {
        "ms": {name: median(series) * 1e3 for name, series in times.items()},
        "ratio": ratio.median,
        "interval": [ratio.low, ratio.high],
        "null": beside.median,
        "counts": FAIR[0] <= beside.median <= FAIR[1],
    }
