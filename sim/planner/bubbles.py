"""How long a pipeline takes, in closed form: its longest chain of actions.

What a schedule does is fixed; its time is that of the longest chain of actions that wait for each other. Each row is a
chain that can be the longest: how many forwards F, gradients of inputs I, of weights W and transfers are on it beyond
one F, I and W for each of m microbatches, on p ranks (q = p − 1) with v chunks each, in whole ranks' times::

    schedule       F               I               W               transfers
    gpipe          q               q               q               2 q
    looped         q/v             q/v             q/v             2 q
    1f1b           q               q               q               2 q m/p + 2 (p − 2)
    interleaved    q/v + r         q/v + r         q/v + r         2 (v p − 1)
    zb-h1          q               q               − q             4 q
                   0               q               0               4 q
    zb-h2          q               q               − 2 q           2 q
                   − q             q               0               2 q
    zbv            0               q               − q             6 p − 8
                   − q/2           1/2             p/2 − 1
                   q               − q/2           − q/2
    dualpipev      p/2 − 1         q               − q/2           (4 − 4/p) m + 3 p − 7
                   q               0               0
    v-half         p/2 + 1         3p/2 − 3        3/2 − p/2       6 p − 8
                   5p/4 − 1/2      5p/8 − 1        1/2 − p/4
    v-min          p               p − 3           1/2             (6 − 8/p) m + 4 (p − 2)

Looped with no more microbatches than ranks waits for p messages more at each of 2 (v − 1) turns.
In the table r = (v − 1)/v for each microbatch that m lacks to a multiple of p. V-half and V-min repeat patterns of
equal slots: where F, I and W differ, the longest of them counts more often than once a microbatch (:func:`patterns`).
All were read off the schedules simulated action by action (:func:`sim.pipeline.simulate`), to which tests hold them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .arithmetic import least, most
from .layout import VEE

Chain = tuple[float, float, float, float]  # F, I, W, transfers
# Of the V-shaped schedules, whose first rank has both ends of the model: the share of the idle time that is left when
# this rank sets the pace, and (a + b p) of the seconds that it needs more for a microbatch fit into the rest of it.
ABSORBED: Mapping[str, tuple[float, float, float]] = {
    "zbv": (0.5, 0, 0.6), "dualpipev": (1, 0, 1.5), "v-half": (0.9, 1.6, 0), "v-min": (1, 1.5, 0),
}  # fmt: skip


@dataclass(frozen=True)
class Slot:
    """Seconds of one microbatch on a rank with all its chunks; weight: the part of ``backward`` that is W."""

    forward: float
    backward: float
    weight: float

    @property
    def total(self) -> float:
        return self.forward + self.backward

    @property
    def each(self) -> tuple[float, float, float]:
        """F, I, W."""
        return self.forward, self.backward - self.weight, self.weight

    def chain(self, counts: Chain) -> float:
        """Seconds of so many actions."""
        return sum(count * seconds for count, seconds in zip(counts, self.each, strict=False))


def chains(schedule: str, p: int, m: int, v: int = 1) -> list[Chain]:
    """The rows above, for at least two ranks; numbers may be arrays."""
    q = p - 1
    if schedule == "gpipe":
        return [(q, q, q, 2 * q)]
    if schedule == "looped":
        return [(q / v, q / v, q / v, 2 * q + 2 * p * (v - 1) * (m <= p))]
    if schedule == "1f1b":
        return [(q, q, q, 2 * q * m / p + 2 * most(p - 2, 0))]
    if schedule == "interleaved":
        longer = q / v + (-m % p) * (v - 1) / v
        return [(longer, longer, longer, 2 * (v * p - 1))]
    if schedule == "zb-h1":
        return [(q, q, -q, 4 * q), (0, q, 0, 4 * q)]
    if schedule == "zb-h2":
        return [(q, q, -2 * q, 2 * q), (-q, q, 0, 2 * q), (0, 0, 0, 2 * q)]
    if schedule == "dualpipev":
        sent = (4 - 4 / p) * m + 3 * p - 7
        return [(p / 2 - 1, q, -q / 2, sent), (q, 0, 0, sent)]
    sent = 6 * p - 8
    if schedule == "zbv":
        return [(0, q, -q, sent), (-q / 2, 0.5, p / 2 - 1, sent), (q, -q / 2, -q / 2, sent)]
    if schedule == "v-half":
        return [
            (p / 2 + 1, 1.5 * p - 3, 1.5 - p / 2, sent),
            (1.25 * p - 0.5, 0.625 * p - 1, 0.5 - p / 4, sent),
        ]
    return [(p, p - 3, 0.5, (6 - 8 / p) * m + 4 * (p - 2))]


def patterns(schedule: str, p: int, m: int) -> list[Chain]:
    """Chains on which an action of a microbatch counts more often than once, in all."""
    if schedule == "v-half":
        return [
            (2 * m + p - 2, m / 2 + 0.75 * p, 1.5, 2 * m + 5 * p - 8),
            _where(p > 2, (m / 2 + 0.75 * p + 1, 2 * m + p - 3, 1.5, 2 * m + 5 * p - 10)),
            _where(p == 2, (1.5 * m + 0.5, m + 1, 1.5, 2 * m + 2)),
        ]
    if schedule == "v-min":
        around, of_two = (6 - 8 / p) * m + 4 * (p - 2), 2 * m + 2
        return [
            _where(p > 2, (p, 3 * m + p - 3, 0.5, around)),
            _where(p > 2, (3 * m + p - 3, p, 0.5, around)),
            _where(p > 2, (p, p, 3 * m - 2.5, around)),
            _where(p == 2, (m / 2 + 1.5, 2 * m, m / 2, of_two)),
            _where(p == 2, (2 * m, m / 2 + 1.5, m / 2, of_two)),
            _where(p == 2, (1.5 * m + 0.5, 1.5 * m + 0.5, 0.5, of_two)),
        ]
    return []


def makespan(schedule: str, p: int, m: int, v: int, heavy: Slot, others: Slot, p2p: float = 0.0) -> float:
    """Seconds of the whole pipeline on the rank that is longest under way, as :attr:`PipelineRun.stage_span`.

    Args:
        heavy: the rank that takes longest, the last one (of V-shaped schedules the first).
        others: the mean of the others.
        p2p: seconds of a transfer.
    """
    longest = m * heavy.total
    if schedule in VEE:
        kept, a, b = ABSORBED[schedule]
        slack = (a + b * p) * (heavy.total - others.total)
        for counts in chains(schedule, p, m, v):
            idle = others.chain(counts)
            longest = most(longest, m * others.total + idle + counts[3] * p2p)
            longest = most(longest, m * heavy.total + most(kept * idle - slack, 0.0) + counts[3] * p2p)
        for counts in patterns(schedule, p, m):
            longest = most(longest, others.chain(counts) + counts[3] * p2p)
        return longest
    if schedule == "naive":  # one rank computes at a time
        return longest + m * (p - 1) * (others.total + 2 * p2p)
    for counts in chains(schedule, p, m, v):
        f, i, w, sent = counts
        filling = others.chain((most(f, 0), most(i, 0), most(w, 0), 0))
        saved = heavy.chain((least(f, 0), least(i, 0), least(w, 0), 0))
        longest = most(longest, m * heavy.total + filling + saved + sent * p2p)
    return longest


def _where(condition: bool, chain: Chain) -> Chain:
    """The chain, where the condition holds."""
    f, i, w, sent = chain
    return condition * f, condition * i, condition * w, condition * sent
