"""Predictions beside published steps: how wrong, and with which constants."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from .memory import ledgers
from .runs import Run
from .step import step_time

NOT_MODELLED = (
    "jitter and slow nodes, which grow with their number",
    "memory that is full: retries of the allocator",
    "experts that get more than their share of tokens",
    "clocks below the data sheet's: power limits, heat",
    "what a program does between steps: data, logging, checks",
)
FEWEST, APART = 5, 0.05
STEPS = (0.08, 0.04, 0.02, 0.01, 0.005, 0.0025)  # of the search for constants


@dataclass(frozen=True)
class Predicted:
    """A run, its predicted seconds, and bytes in use on its fullest GPU (where none were measured: 0)."""

    run: Run
    seconds: float
    peak: float = 0.0

    @property
    def error(self) -> float:
        """As a part of the measured time: above 0, predicted too slow."""
        return self.seconds / self.run.measured_s - 1

    @property
    def peak_error(self) -> float:
        """As a part of the measured peak: above 0, predicted too large."""
        return self.peak / self.run.measured_peak - 1


@dataclass(frozen=True)
class Errors:
    """In percent: the mean size, the median size, nine-tenths of the sizes, and the mean with its sign."""

    n: int
    mape: float
    median: float
    p90: float
    bias: float


@dataclass(frozen=True)
class Ranking:
    """Plans of one model on as many GPUs with as large a batch. cost: what the plan that is predicted to be the fastest
    takes, over the fastest one measured, in percent; ordered: percent of the pairs whose measured times are ``APART``
    that are predicted in their order."""

    model: str
    gpus: int
    plans: int
    cost: float
    ordered: float


def predict(runs: Iterable[Run]) -> list[Predicted]:
    return [
        Predicted(run, float(step_time(run.model, run.layout, run.hardware, run.software).time_s), _peak(run))
        for run in runs
    ]


def _peak(run: Run) -> float:
    if not run.measured_peak:
        return 0.0
    return max(stage.allocated for stage in ledgers(run.model, run.layout))


def errors(predicted: Sequence[Predicted]) -> Errors:
    """Of the times of at least one prediction."""
    return _errors([one.error for one in predicted])


def peak_errors(predicted: Sequence[Predicted]) -> Errors | None:
    """Of the peaks that were measured; None if none was."""
    found = [one.peak_error for one in predicted if one.run.measured_peak]
    return _errors(found) if found else None


def _errors(parts: Sequence[float]) -> Errors:
    sizes = sorted(abs(part) * 100 for part in parts)
    p90 = sizes[min(len(sizes) - 1, round(0.9 * (len(sizes) - 1)))]
    bias = statistics.fmean(part * 100 for part in parts)
    return Errors(len(sizes), statistics.fmean(sizes), statistics.median(sizes), p90, bias)


def rankings(predicted: Iterable[Predicted]) -> list[Ranking]:
    """Of every problem (model, GPUs, batch, precision) of which at least ``FEWEST`` different plans were measured."""

    def problem(run: Run) -> str:
        layout, model = run.layout, run.model
        machine, batch = run.hardware.chip.name, f"{layout.samples} {model.sequence} {layout.precision.name}"
        return f"{run.name} {model.layers} {machine} {layout.gpus} {batch}"

    found = []
    for own in grouped(predicted, problem).values():
        if len({one.run.text for one in own}) < FEWEST:  # the same plan measured again is no choice
            continue
        first = min(own, key=lambda one: one.seconds).run
        times = [(one.run.measured_s, one.seconds) for one in own]
        pairs = [p < q for m, p in times for n, q in times if n > m * (1 + APART)]
        cost = first.measured_s / min(measured for measured, _ in times) - 1
        right = statistics.fmean(pairs) if pairs else 1.0
        found.append(Ranking(first.name, first.layout.gpus, len(own), 100 * cost, 100 * right))
    return found


def grouped(predicted: Iterable[Predicted], key: Callable[[Run], str]) -> dict[str, list[Predicted]]:
    """By what a run says, in the order of their first."""
    found: dict[str, list[Predicted]] = {}
    for one in predicted:
        found.setdefault(key(one.run), []).append(one)
    return found


def fit(runs: Sequence[Run], names: Sequence[str]) -> dict[str, float]:
    """Constants for which the mean size of log(predicted / measured) is least, by a search along each in turn, from
    those of the first run's software on."""
    values = {name: float(getattr(runs[0].software, name)) for name in names}

    def cost(values: dict[str, float]) -> float:
        changed = [replace(run, software=replace(run.software, **values)) for run in runs]  # type: ignore[arg-type]
        return statistics.fmean(abs(math.log1p(one.error)) for one in predict(changed))

    least = cost(values)
    for step in STEPS:
        better = True
        while better:
            better = False
            for name in names:
                for change in (-step, step):
                    tried = {**values, name: values[name] + change}
                    if 0.01 <= tried[name] <= 1 and (found := cost(tried)) < least - 1e-9:
                        values, least, better = tried, found, True
    return values


def left_out(runs: Sequence[Run], names: Sequence[str]) -> list[Predicted]:
    """Every run, predicted with constants that were fitted to other models of the same source and software.

    A model is told from others by its name and depth. Groups with a single model keep their constants.
    """
    found: list[Predicted] = []
    for run_set in grouped(predict(runs), lambda run: f"{run.source} {run.software.name}").values():
        models = grouped(run_set, lambda run: f"{run.name} {run.model.layers}")
        for name, own in models.items():
            others = [one.run for other, several in models.items() if other != name for one in several]
            values = fit(others, names) if others else {}
            found += predict(
                replace(one.run, software=replace(one.run.software, **values))  # type: ignore[arg-type]
                for one in own
            )
    return found
