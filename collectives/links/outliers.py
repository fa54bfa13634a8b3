"""Which links are not like the others: a robust test, in which the odd ones do not move the measure. Needs no torch.

    spread = 1.4826 × median |x - median|      (for a normal distribution its standard deviation)
    odd    = more than 5 spreads below the median, and below 0.9 of it      (above, and above 1.25, for latencies)

The second bound is for quiet machines, whose spread is next to nothing. Pairs inside a host and pairs between hosts are
judged apart. Source: Hampel, "The influence curve and its role in robust estimation", 1974.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

Link = tuple[int, int]

_SPREADS = 5.0
_TO_SIGMA = 1.4826
_LEAST, _MOST = 0.9, 1.25


@dataclass(frozen=True)
class Outlier:
    """A link, from one rank to another, and how it stands beside the median of its kind."""

    link: Link
    value: float
    median: float
    spread: float

    @property
    def of_median(self) -> float:
        return self.value / self.median


def outliers(values: Mapping[Link, float], low: bool) -> list[Outlier]:
    """The links that are too low, or too high; worst first. Of fewer than three links none is odd.

    Args:
        low: low values are the bad ones (bandwidths), else high ones (latencies).
    """
    if len(values) < 3:
        return []
    middle = median(values.values())
    spread = _TO_SIGMA * median(abs(value - middle) for value in values.values())
    found = [Outlier(link, value, middle, spread) for link, value in values.items()]
    if low:
        odd = [o for o in found if o.value < middle - _SPREADS * spread and o.value < _LEAST * middle]
        return sorted(odd, key=lambda o: o.value)
    odd = [o for o in found if o.value > middle + _SPREADS * spread and o.value > _MOST * middle]
    return sorted(odd, key=lambda o: -o.value)
