"""``--predict``: what a run should measure, said before it, from a look of a moment at the wire and the adder.

    a tiny message round the ring      → latency of a step          a tiny collective of ours, and of the backend
    a large one                        → seconds a byte                → what either costs before the first byte
    an addition                        → seconds a byte added

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
from .report import Row

if TYPE_CHECKING:
    from .settings import Settings

TINY = 8  # bytes of a probe's message
TIMES, IN_A_ROW = 5, 10
_RINGS = ("all_reduce", "all_gather", "reduce_scatter")


@dataclass(frozen=True)
class Parts:
    """Predicted seconds of one collective: before the first byte and between steps; on the wire; exposed additions."""

    launch: float
    wire: float
    addition: float

    @property
    def seconds(self) -> float:
        return self.launch + self.wire + self.addition


@dataclass(frozen=True)
class Expectation:
    """Constants of the machine as probed, and seconds that the backend's smallest collective takes."""

    machine: Machine
    native_latency: float
    size: int

    def ours(self, schedule: Schedule, nbytes: float) -> Parts:
        """Seconds of a schedule on a buffer of ``nbytes`` (the whole)."""
        launch = predict(schedule, self.size, 0, self.machine)
        moved = predict(schedule, self.size, nbytes, replace(self.machine, gamma=0.0))
        return Parts(launch, moved - launch, predict(schedule, self.size, nbytes, self.machine) - moved)

    def native(self, collective: str, nbytes: float) -> float | None:
        """Seconds of the backend's own; None for collectives without a ring."""
        if collective not in _RINGS or self.native_latency <= 0:
            return None
        bare = Machine(alpha=0.0, beta=self.machine.beta, gamma=self.machine.gamma, base=self.native_latency)
        return predict(find(collective, "ring"), self.size, nbytes, bare)


@dataclass(frozen=True)
class Probes:
    """What is timed, each a call that all ranks make together: the wire once round with tiny and with large messages,
    an addition of ``nbytes`` bytes, and a tiny collective of ours and of the backend.

    nbytes: of a large message, large enough that its latency hardly counts.
    """

    nbytes: int

    tiny: Callable[[], object]
    large: Callable[[], object]
    add: Callable[[], object]
    ours: Callable[[], object]
    native: Callable[[], object] | None


def expect(probes: Probes, once: Callable[[Callable[[], object]], float], usual: Machine, size: int) -> Expectation:
    """Probe the machine; a collective operation, some tens of milliseconds.

    Args:
        once: seconds of one call, the same on all ranks.
        usual: the machine as it is believed to be: how a step's latency is shared between its two ends and the wire.
        size: ranks, at least 2; the wire's round has as many steps as a ring all-reduce, 2 (size - 1).
    """
    steps = 2 * (size - 1)
    calls = [probes.tiny, probes.large, probes.add, probes.ours, *([] if probes.native is None else [probes.native])]
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(1 + TIMES):  # in turns, so that all see the same machine; the first is not counted
        for call, found in zip(calls, times, strict=True):
            seconds = once(partial(_in_a_row, call)) / IN_A_ROW
            if turn:
                found.append(seconds)
    round_tiny, round_large, add, ours, *native = map(median, times)
    tiny, large = round_tiny / steps, round_large / steps
    share = tiny / (usual.alpha + usual.overhead)
    base = max(0.0, ours - steps * tiny)
    machine = Machine(
        alpha=usual.alpha * share,
        beta=max(large - tiny, 0.0) / (probes.nbytes - TINY),
        gamma=add / probes.nbytes,
        base=base,
        overhead=usual.overhead * share,
    )
    return Expectation(machine, native[0] if native else 0.0, size)


def _in_a_row(call: Callable[[], object]) -> None:
    for _ in range(IN_A_ROW):
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
    yield (
        f"probed: {(m.alpha + m.overhead) * 1e6:.3g} us a step, {1e-9 / m.beta if m.beta else 0:.3g} GB/s a rank and "
        f"direction, {1e-9 / m.gamma if m.gamma else 0:.3g} GB/s added; the backend is taken to be a ring on this wire"
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


def verdicts(
    rows: Sequence[Row], expectation: Expectation | None, schedule: Callable[[str, int], Schedule]
) -> Iterator[str]:
    """How far the prediction was off, and of what the time of the largest size should have consisted; after the run."""
    if expectation is None:
        return
    for name in dict.fromkeys(row.algorithm for row in rows):
        mine = [row for row in rows if row.algorithm == name]
        off = [abs(row.residual) for row in mine if row.residual is not None]
        largest = max(mine, key=lambda row: row.bytes)
        parts = expectation.ours(schedule(name, largest.bytes), largest.bytes)
        shares = ", ".join(
            f"{what} {100 * part / parts.seconds:.0f} %"
            for what, part in (("launch", parts.launch), ("wire", parts.wire), ("addition", parts.addition))
        )
        beyond = 100 * (largest.time_us / 1e6 / parts.seconds - 1)
        said = f"median residual of the ratio {100 * median(off):.0f} %; " if off else ""
        yield f"{name}: {said}at {largest.bytes} bytes expected {shares}; measured {beyond:+.0f} % beside that"
