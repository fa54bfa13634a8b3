"""How often to save: in closed form, and with failures in the event engine.

::

    │ train τ │ save δ │ train τ │ save δ │ trai╳ failure: since the last save all is lost │ restart R │ train τ │ …

Failures of n GPUs come every M = (hours a GPU lasts) / n on average, at random. Young (1974) takes τ = √(2 δ M); Daly
(2006), "A higher order estimate of the optimum checkpoint interval", adds terms that matter when δ is no longer small,
and gives the time that S seconds of training then take: M e^(R/M) (e^((τ+δ)/M) − 1) S/τ.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from ..engine import Engine, Process

# Of a simulated run; of longer ones the first part stands for the whole.
MOST_INTERVALS, MOST_FAILURES = 5_000, 5_000


@dataclass(frozen=True)
class Saving:
    """Seconds: mtbf M between failures of the whole job, write δ of a checkpoint, restart R after a failure."""

    mtbf: float
    write: float
    restart: float

    @property
    def young(self) -> float:
        """Seconds of training between checkpoints, to first order."""
        return math.sqrt(2 * self.write * self.mtbf)

    @property
    def daly(self) -> float:
        """The same to higher order; M itself when saving takes longer than 2 M.

        >>> round(Saving(mtbf=24 * 3600, write=300, restart=0).daly)
        6900
        """
        if self.write >= 2 * self.mtbf:
            return self.mtbf
        ratio = self.write / (2 * self.mtbf)
        return self.young * (1 + math.sqrt(ratio) / 3 + ratio / 9) - self.write

    def expected_s(self, work: float, interval: float) -> float:
        """Seconds that so many of training take; infinite where hardly an interval ends before a failure."""
        if (interval + self.write + self.restart) / self.mtbf > 500:
            return math.inf
        again = math.expm1((interval + self.write) / self.mtbf)
        return self.mtbf * math.exp(self.restart / self.mtbf) * again * work / interval

    def goodput(self, interval: float) -> float:
        """The share of time that is training that stays."""
        return 1 / self.expected_s(1.0, interval)


def simulated_goodput(saving: Saving, work: float, interval: float, seed: int = 0) -> tuple[float, int]:
    """(The same share, how many failures there were), of a run of ``work`` seconds of training, event by event.

    Failures are drawn from an exponential distribution; they strike while training, saving or restarting.

    Args:
        interval: one of which enough end before a failure (:meth:`Saving.goodput` above zero).
    """
    work = min(work, MOST_INTERVALS * interval, MOST_FAILURES * saving.mtbf * saving.goodput(interval))
    engine, draw = Engine(), random.Random(seed)
    failures = 0

    def job() -> Process:
        nonlocal failures
        done, fails = 0.0, draw.expovariate(1 / saving.mtbf)
        while done < work:
            stretch = min(interval, work - done)
            needed = stretch + saving.write
            if engine.now + needed <= fails:
                yield needed
                done += stretch
                continue
            restarted = False
            yield max(fails - engine.now, 0.0)
            while not restarted:
                failures += 1
                fails = engine.now + draw.expovariate(1 / saving.mtbf)
                restarted = engine.now + saving.restart <= fails
                yield min(saving.restart, fails - engine.now)

    engine.start(job())
    engine.run()
    return work / engine.now, failures
