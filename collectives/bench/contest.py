"""All that is timed together at one size, and the rows that come of it.

native  ring  auto  wire  nccl-ring …  native         one round; the order turns, see ``measure.py``
└first  └──ours───┘ └───── beside ───┘ └again
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from . import wire
from .cycles import iqr
from .measure import Call, Stopwatch, Timing
from .report import Row


@dataclass(frozen=True)
class Times:
    """By name; ``again`` is the backend's own a second time. None where the backend refuses."""

    ours: dict[str, Timing]
    beside: dict[str, Timing]
    first: Timing | None
    again: Timing | None


@dataclass(frozen=True)
class Contest:
    """The contenders at one size; ``beside`` are the wire and the baselines."""

    ours: dict[str, Call]
    beside: dict[str, Call]
    native: Call | None

    @property
    def calls(self) -> dict[str, Call]:
        """All of them once."""
        return {**self.ours, **self.beside, **({} if self.native is None else {"native": self.native})}

    def time(self, watch: Stopwatch, warmup: int, iters: int | None, rounds: int, tick: Callable[[], None]) -> Times:
        """Interleaved; the backend's own stands first and last among them."""
        names = [*self.ours, *self.beside]
        calls = [*self.ours.values(), *self.beside.values()]
        if self.native is not None:
            calls = [self.native, *calls, self.native]
        timings = watch.rounds(calls, watch.iterations(calls, warmup, iters), rounds, tick)
        first = again = None
        if self.native is not None:
            first, *timings, again = timings
        found = dict(zip(names, timings, strict=True))
        return Times({n: found[n] for n in self.ours}, {n: found[n] for n in self.beside}, first, again)


def compared(times: Times, timing: Timing, blank: Row, factor: float) -> Row:
    """The row of one contender: ``blank`` says what it is, this how long it took, beside the others.

    Args:
        factor: busbw / algbw.
    """
    nbytes, first, again = blank.bytes, times.first, times.again
    p50, p99 = timing.percentile(50), timing.percentile(99)
    wired = times.beside.get(wire.NAME)
    return replace(
        blank,
        time_us=timing.typical * 1e6,
        iqr_us=iqr(timing.seconds) * 1e6,
        cpu_us=timing.cpu_typical * 1e6,
        p50_us=None if p50 is None else p50 * 1e6,
        p99_us=None if p99 is None else p99 * 1e6,
        algbw=nbytes / timing.typical / 1e9,
        busbw=nbytes / timing.typical / 1e9 * factor,
        native_time_us=None if first is None else first.typical * 1e6,
        native_busbw=None if first is None else nbytes / first.typical / 1e9 * factor,
        ratio=None if first is None else timing.over(first),
        null=None if first is None or again is None else again.over(first),
        of_wire=None if wired is None else wired.over(timing),
        ratios={name: timing.over(other) for name, other in times.beside.items() if name != wire.NAME},
    )


def blank_row(collective: str, nbytes: int, dtype: str | None, redop: str, ranks: int) -> Row:
    """A row of which nothing has been measured yet."""
    return Row(
        collective=collective,
        algorithm="",
        bytes=nbytes,
        dtype=dtype,
        redop=redop,
        ranks=ranks,
        time_us=0.0,
        cpu_us=0.0,
        p50_us=None,
        p99_us=None,
        algbw=0.0,
        busbw=0.0,
        wrong=None,
        native_time_us=None,
        native_busbw=None,
        ratio=None,
        null=None,
        picked=None,
    )
