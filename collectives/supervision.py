"""Who looks after a group's operations: waits for their ends, sees that a peer has gone, and breaks the group once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from . import failure, flight
from .call import Running
from .errors import CollectiveError
from .executor import StepFailure
from .guard import Guard
from .link import Link
from .vigil import Vigil
from .work import Outcome

TICK = 0.25  # seconds between two looks at the peers while an operation lasts


class Supervision:
    """The part of a communicator that deals with failure.

    broken: why the group is; None while it is whole.
    vigil: who watches where operations end on a device; None where a wait blocks the host.
    """

    link: Link
    rank: int
    size: int
    backend: str

    def __init__(self) -> None:
        self.broken: CollectiveError | None = None
        self._running: Running | None = None  # the operation under way
        self._failing = threading.Lock()
        self._guard = Guard(TICK)
        self.vigil: Vigil | None = None

    @property
    def label(self) -> str:
        """How records call the group."""
        raise NotImplementedError

    @property
    def destroyed(self) -> bool:
        """Whether the process group is gone, or the communicator closed."""
        raise NotImplementedError

    def raise_if_broken(self, describe: Callable[[], str]) -> None:
        """
        Raises:
            CollectiveError: an earlier operation failed, or the group is closed.
        """
        if self.broken is not None:
            raise CollectiveError(f"{describe()}: the group is broken since an earlier failure ({self.broken})")

    def watch(self, outcome: Outcome, seconds: float | None) -> None:
        """Wait for an operation, and look after the peers meanwhile: a wait for a send to a dead one never ends.

        Raises:
            CollectiveError: what went wrong; TimeoutError: ``seconds`` have passed.
        """
        until = None if seconds is None else time.monotonic() + seconds
        while not outcome.wait(TICK if until is None else min(TICK, max(0.0, until - time.monotonic()))):
            if (broken := self._look()) is not None:
                raise broken
            if until is not None and time.monotonic() >= until:
                raise TimeoutError

    def follow(self, outcome: Outcome, callback: Callable[[], object]) -> None:
        """Have ``callback`` called when an operation is over, at the latest soon after a peer has died."""
        outcome.then(callback)
        if not outcome.done:
            self._guard.add(outcome, self._look)

    def _look(self) -> CollectiveError | None:
        """What is wrong with the group, after a look at the peers."""
        if self.broken is None and self.vigil is not None:
            self._look_for_signs(self.vigil)
        elif self.broken is None and self._running is not None:
            self._look_after_peers(self._running)
        return self.broken

    def _look_for_signs(self, vigil: Vigil) -> None:
        """Break the group if an operation on the device cannot end any more, or is late."""
        sign, issued = vigil.look(), vigil.last
        if sign is not None and issued is not None:
            waited = time.monotonic() - issued.began
            broken = self.break_off(failure.seen(self.rank, issued.describe(), issued.algorithm, waited, sign))
            if (record := flight.current()) is not None:
                record.fail(self.label, broken)

    def _look_after_peers(self, running: Running) -> None:
        """Fail the operation under way if a connection has closed, naming what waits for it.

        Around the deadline it ends by itself, and a timeout closes this rank's own connections: no sign of a dead peer.
        """
        if time.monotonic() > running.deadline - TICK / 2:
            return
        if self.destroyed:
            self.broken = CollectiveError(f"{running.call.describe()}: the group was destroyed in the middle of it")
            return
        closed = failure.closed_peers(self)
        waits = [(team, team.step, team.verb, team.peer) for team in running.teams if team.peer in closed]
        if not waits:  # whoever has gone had done its part, unless it has left a word that it gave up
            for culprit in failure.who_gave_up(self, closed)[:1]:
                gone = RuntimeError("connection closed by peer")
                self.fail(
                    running.call.describe, running.algorithm, StepFailure(running.teams[0], gone, culprit=culprit)
                )
            return
        time.sleep(0.02)
        for team, *before in waits:
            if [team.step, team.verb, team.peer] == before and self._running is running:
                self.fail(
                    running.call.describe,
                    running.algorithm,
                    StepFailure(team, RuntimeError("connection closed by peer")),
                )

    def fail(self, describe: Callable[[], str], algorithm: str, stop: StepFailure) -> CollectiveError:
        """Break this communicator, once, and let the other ranks know at once."""
        sign = None if self.vigil is None or self.broken is not None else self.vigil.hearsay()
        with self._failing:
            if self.broken is None:
                if sign is not None:
                    self.broken = failure.seen(self.rank, describe(), algorithm, stop.waited, sign)
                else:
                    self.broken = failure.give_up(self, describe(), algorithm, stop)
                if self.vigil is not None:
                    self.cut(self.broken)
                if (record := flight.current()) is not None:
                    record.fail(self.label, self.broken)
            return self.broken

    def break_off(self, error: CollectiveError) -> CollectiveError:
        """Break this communicator with an error that says all; every wait that is under way raises soon."""
        with self._failing:
            if self.broken is None:
                self.broken = error
                self.cut(error)
            return self.broken

    def cut(self, error: CollectiveError) -> None:
        """End what is under way here, and have it end elsewhere, too."""
        failure.close_connections(self)
