"""A whole training run: from the time of a step to days, money and energy; and how many tokens a model deserves.

::

    FLOPs = 6 N D      days = D / (tokens a second · goodput)      GPU-hours = days · 24 · GPUs

Compute-optimal: Hoffmann et al. (2022) train N parameters on 20 N tokens; Kaplan et al. (2020), table 6, take
N = 1.3e9 · C^0.73 and D = 2e10 · C^0.27 with C in PF-days.
"""

from __future__ import annotations

from dataclasses import dataclass

from .failures import Saving

PER_PARAMETER = 20  # tokens, of Hoffmann et al.
PF_DAY = 1e15 * 86400
DAY = 86400.0


@dataclass(frozen=True)
class Bill:
    """What a run takes. days: with failures and checkpoints; energy_kwh: of GPUs at their rated power, with nothing
    around them."""

    days: float
    days_without_failures: float
    gpu_hours: float
    price: float
    energy_kwh: float


def bill(training_s: float, goodput: float, gpus: int, gpu_hour: float, watts: float) -> Bill:
    """Of so many seconds of training without failures.

    Args:
        goodput: share of time that is training that stays.
        gpu_hour: price of one.
    """
    hours = training_s / goodput / 3600 * gpus
    return Bill(training_s / goodput / DAY, training_s / DAY, hours, hours * gpu_hour, hours * watts / 1000)


def optimal_tokens(parameters: float) -> float:
    """Of Hoffmann et al.

    >>> optimal_tokens(70e9) / 1e12
    1.4
    """
    return PER_PARAMETER * parameters


def optimal_split(flop: float) -> tuple[float, float]:
    """(Parameters, tokens) for so many FLOPs: C = 6 N · 20 N."""
    parameters = (flop / (6 * PER_PARAMETER)) ** 0.5
    return parameters, PER_PARAMETER * parameters


def kaplan_split(flop: float) -> tuple[float, float]:
    """(Parameters, tokens) of Kaplan et al."""
    compute = flop / PF_DAY
    return 1.3e9 * compute**0.73, 2e10 * compute**0.27


def checkpoint_bytes(parameters: float, state: float) -> float:
    """Parameters and what the optimizer keeps: all that a restart needs."""
    return parameters * state


def saving_of(gpus: int, mtbf_gpu_hours: float, nbytes: float, bandwidth: float, restart: float) -> Saving:
    """Args:
    mtbf_gpu_hours: that a GPU runs between failures that stop the job.
    bandwidth: bytes a second of the whole job to storage.
    """
    return Saving(mtbf_gpu_hours * 3600 / gpus, nbytes / bandwidth, restart)
