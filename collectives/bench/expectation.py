"""``--predict``: what a run should measure, said before it, from a look of a moment at the wire and the adder.

    a tiny message round the ring      → latency of a step          a tiny collective of ours, and of the backend
    a large one                        → seconds a byte                → what either costs before the first byte
    an addition                        → seconds a byte added
    over several hosts, both also round the ranks of each host alone, as the ring's slowest links are those between

Ours is then the cost model's walk of the schedule (``cost.py``); the backend is taken to be a ring on the same wire, so
the ratio says what our steps cost beside one that has no Python between them. What was measured beside what was
expected, the residual, is what the model does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from ..cost import Machine, predict
from ..registry import find
from ..schedule import Schedule
from .nics import with_nics
from .order import Seat, ranks_by_host
from .report import Row

if TYPE_CHECKING:
    from .settings import Settings

TINY = 8  # bytes of a probe's message
TIMES, IN_A_ROW = 5, 10
ENOUGH = 0.02  # seconds of calls in a row
HIDES = 0.8  # of a tiny step: a launch that takes more is what the step waits for
_RINGS = ("all_reduce", "all_gather", "reduce_scatter")


@dataclass(frozen=True)
class Parts:
    """Seconds of one collective: before the first byte and between steps; on the wire, as if all ranks were in one
    node; what the NICs between nodes add to that; exposed additions."""

    launch: float
    wire: float
    addition: float
    nics: float = 0.0

    @property
    def seconds(self) -> float:
        return self.launch + self.wire + self.addition + self.nics


@dataclass(frozen=True)
class Expectation:
    """Constants of the machine as probed, and seconds that the backend's smallest collective takes.

    ring_a_nic: whether the backend has a ring a NIC over nodes, as NCCL has; gloo has one ring in all.
    """

    machine: Machine
    native_latency: float
    size: int
    ring_a_nic: bool = False

    def ours(self, schedule: Schedule, nbytes: float) -> Parts:
        """Seconds of a schedule on a buffer of ``nbytes`` (the whole)."""
        ahead = replace(self.machine, launch=0.0)  # a host that has launched all of it before
        inside = replace(ahead, gamma=0.0, local=0, far_alpha=0.0, far_beta=0.0)
        wire = predict(schedule, self.size, nbytes, inside) - predict(schedule, self.size, 0, inside)
        moved, empty = (predict(schedule, self.size, size, replace(ahead, gamma=0.0)) for size in (nbytes, 0))
        addition = predict(schedule, self.size, nbytes, ahead) - moved
        seconds = predict(schedule, self.size, nbytes, self.machine)
        return Parts(seconds - addition - (moved - empty), wire, addition, moved - empty - wire)

    def launched(self, seconds: float, usual: Machine) -> Expectation:
        """The same where the host takes ``seconds`` to launch a group.

        If that is all that a tiny step takes, the wire's latency is hidden below it, and taken to be as in ``usual``.
        """
        m = self.machine
        latency, believed = m.alpha + m.overhead, usual.alpha + usual.overhead
        share = min(1.0, believed / latency) if seconds > HIDES * latency else 1.0
        return replace(self, machine=replace(m, alpha=m.alpha * share, overhead=m.overhead * share, launch=seconds))

    def native(self, collective: str, nbytes: float) -> float | None:
        """Seconds of the backend's own; None for collectives without a ring."""
        if collective not in _RINGS or self.native_latency <= 0:
            return None
        m = self.machine
        bare = replace(m, alpha=0.0, far_alpha=0.0, overhead=0.0, launch=0.0, base=self.native_latency)
        if self.ring_a_nic and m.nodes(self.size) > 1:
            bare = Machine(0.0, max(m.beta, m.far_beta / (m.nics or m.local)), m.gamma, base=self.native_latency)
        return predict(find(collective, "ring"), self.size, nbytes, bare)


@dataclass(frozen=True)
class Probes:
    """What is timed, each a call that all ranks make together: the wire once round with tiny and with large messages,
    an addition of ``nbytes`` bytes, and a tiny collective of ours and of the backend.

    nbytes: of a large message, large enough that its latency hardly counts. tiny_inside, large_inside: the wire round
    the ranks of every host alone, where there are several on each of several. seats: of all ranks.
    """

    nbytes: int

    tiny: Callable[[], object]
    large: Callable[[], object]
    add: Callable[[], object]
    ours: Callable[[], object]
    native: Callable[[], object] | None
    tiny_inside: Callable[[], object] | None = None
    large_inside: Callable[[], object] | None = None
    seats: Sequence[Seat] = ()


def expect(probes: Probes, once: Callable[[Callable[[], object]], float], usual: Machine, size: int) -> Expectation:
    """Probe the machine; a collective operation, some tens of milliseconds.

    Args:
        once: seconds of one call, the same on all ranks.
        usual: the machine as it is believed to be: how a step's latency is shared between its two ends and the wire.
        size: ranks, at least 2; the wire's round has as many steps as a ring all-reduce, 2 (size - 1).
    """
    calls = [probes.tiny, probes.large, probes.add, probes.ours, probes.native, probes.tiny_inside, probes.large_inside]
    tiny, large, add, ours, native, tiny_inside, large_inside = _typical(calls, once)
    step, beta = _line(tiny, large, 2 * (size - 1), probes.nbytes)
    near, near_beta = step, beta
    if probes.tiny_inside:
        mates = ranks_by_host(probes.seats)[0]
        near, near_beta = _line(tiny_inside, large_inside, 2 * (len(mates) - 1), probes.nbytes)
    overhead = min(usual.overhead / (usual.alpha + usual.overhead) * near, step)  # of a message, wherever it goes
    machine = Machine(
        alpha=max(near - overhead, 0.0),
        beta=near_beta,
        gamma=add / probes.nbytes,
        base=max(0.0, ours - tiny),
        overhead=overhead,
    )
    return Expectation(with_nics(machine, probes.seats, step - overhead, beta), native, size)


def _line(tiny: float, large: float, steps: int, nbytes: int) -> tuple[float, float]:
    """Seconds of a step, and of a byte more in it, from what so many steps with tiny and with large messages take."""
    return tiny / steps, max(large - tiny, 0.0) / steps / (nbytes - TINY)


def _typical(
    calls: Sequence[Callable[[], object] | None], once: Callable[[Callable[[], object]], float]
) -> list[float]:
    """Median seconds of each call; 0 where there is none. They take turns, so that all see the same machine."""
    first = [0.0 if call is None else once(call) for call in calls]  # also the first, and so is not counted
    counts = [max(1, min(IN_A_ROW, int(ENOUGH / max(seconds, 1e-9)))) for seconds in first]
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(TIMES):
        for call, count, found in zip(calls, counts, times, strict=True):
            found.append(0.0 if call is None else once(partial(_in_a_row, call, count)) / count)
    return [median(found) for found in times]


def _in_a_row(call: Callable[[], object], count: int) -> None:
    for _ in range(count):
        call()


# In words.


def expected(expectation: Expectation, schedule: Schedule, row: Row) -> dict[str, float | None]:
    """The fields of a row that say what was expected of it."""
    ours = expectation.ours(schedule, row.bytes).seconds
    native = expectation.native(row.collective, row.bytes)
    ratio = ours / native if native else None
    residual = row.ratio / ratio - 1 if ratio and row.ratio is not None else None
    return {"expected_us": ours * 1e6, "expected_ratio": ratio, "residual": residual}


def foretold(expectation: Expectation, settings: Settings, schedule: Callable[[str, int], Schedule]) -> Iterator[str]:
    """What the run should measure, before it.

    Args:
        schedule: what runs under an algorithm's name at a size.
    """
    m = expectation.machine
    between = m.local and (
        f"between hosts {(m.far_alpha + m.overhead) * 1e6:.3g} us and {_rate(m.far_beta)} a NIC and direction, "
    )
    yield (
        f"probed: {(m.alpha + m.overhead) * 1e6:.3g} us a step, {_rate(m.beta)} a rank and direction, {between or ''}"
        f"{_rate(m.gamma)} added; the backend is taken to be a ring on this wire"
    )
    sizes = [settings.row_bytes(size) for size in settings.sizes()]
    for name in settings.algorithms:
        said = []
        for size in sizes:
            ours = expectation.ours(schedule(name, size), size).seconds
            native = expectation.native(settings.collective, size)
            said.append(f"{size}: {ours / native:.2f}" if native else f"{size}: {ours * 1e6:.0f} us")
        kind = "ratio" if expectation.native(settings.collective, 1) else "time"
        yield f"expected {kind} of {name}, by bytes: {', '.join(said)}"


def _rate(seconds_a_byte: float) -> str:
    return f"{1e-9 / seconds_a_byte if seconds_a_byte else 0:.3g} GB/s"
