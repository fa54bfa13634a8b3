"""Who watches operations that end on a device while the host goes on: is the last one over, and are all ranks there?

It asks an event whether it has passed and the heartbeat whether anybody is silent; it never waits for the device. What
it cannot see is in ARCHITECTURE.md, "The watcher on NCCL".
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .heartbeat import BEAT, MISSED, Heartbeat, Sign

_HEARSAY = BEAT * (MISSED + 3)  # seconds after which a silent rank has been named


@dataclass(slots=True)
class Issued:
    """An operation that has been issued, or is being issued: then ``over`` is not known yet."""

    describe: Callable[[], str]
    algorithm: str
    began: float
    deadline: float
    over: Callable[[], bool] | None = None

    @property
    def done(self) -> bool:
        return self.over is not None and self.over()


class Vigil:
    """Over one communicator. Operations end in the order of their issue, so the last one tells of all."""

    def __init__(self, heartbeat: Heartbeat) -> None:
        self.heartbeat = heartbeat
        self.last: Issued | None = None
        self._suspected: Issued | None = None

    @contextlib.contextmanager
    def issuing(self, describe: Callable[[], str], algorithm: str, seconds: float) -> Iterator[Issued]:
        """While an operation is being issued; by the end ``over`` is set, unless that has failed."""
        now = time.monotonic()
        self.heartbeat.issued += 1
        self.last = issued = Issued(describe, algorithm, now, now + seconds)
        try:
            yield issued
        except BaseException:
            issued.over = lambda: True
            raise

    # What a guard asks of what it guards.

    @property
    def done(self) -> bool:
        return self.last is None or self.last.done

    def end(self, error: BaseException | None) -> None:
        """Nobody waits for an outcome: waits ask the communicator."""

    def look(self) -> Sign | None:
        """What is wrong, if an operation is under way and something is; at the second look: it may be about to end."""
        last = self.last
        sign = None if last is None or last.done else self.heartbeat.sign() or self._late(last)
        suspected, self._suspected = self._suspected, None
        if sign is None:
            return None
        self._suspected = last if suspected is None else suspected
        return None if suspected is None or suspected.done else sign

    def hearsay(self) -> Sign | None:
        """Who is silent, where the transport has failed first, and has blamed perhaps a neighbour."""
        until = time.monotonic() + _HEARSAY
        while (sign := self.heartbeat.sign()) is None and time.monotonic() < until:
            time.sleep(BEAT / 4)
        return sign

    def _late(self, issued: Issued) -> Sign | None:
        if time.monotonic() < issued.deadline:
            return None
        behind = self.heartbeat.behind()
        if not behind:
            return Sign(None, "the timeout ended: all ranks have issued as many operations", "timeout")
        said = ", ".join(f"rank {rank} has issued {count}" for rank, count in behind)
        why = f"the timeout ended: this rank has issued {self.heartbeat.issued} operations, but {said}"
        return Sign(behind[0][0], why, "timeout")
