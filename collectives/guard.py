"""Who looks after the other ranks while nobody here waits: only a callback will tell of an operation's end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from .errors import CollectiveError


class Guarded(Protocol):
    """What may never end by itself: an operation, or those of a group."""

    @property
    def done(self) -> bool: ...

    def end(self, error: BaseException | None) -> None: ...


class Guard:
    """A thread that lives as long as there is something to guard, and looks every ``tick`` seconds."""

    def __init__(self, tick: float) -> None:
        self._tick = tick
        self._guarded: dict[Guarded, None] = {}  # in order
        self._lock = threading.Lock()
        self._awake = False

    def add(self, outcome: Guarded, look: Callable[[], CollectiveError | None]) -> None:
        """Look after the peers until the operation is over; once is enough.

        Args:
            look: looks whether a peer has gone; what is wrong with the group, or None.
        """
        with self._lock:
            self._guarded[outcome] = None
            if not self._awake:
                self._awake = True
                threading.Thread(target=self._watch, args=(look,), name="collectives-guard", daemon=True).start()

    def give_up(self, error: CollectiveError) -> None:
        """End all that is guarded: its own thread may never do so."""
        with self._lock:
            guarded, self._guarded = self._guarded, {}
        for outcome in guarded:
            outcome.end(error)

    def _watch(self, look: Callable[[], CollectiveError | None]) -> None:
        while True:
            time.sleep(self._tick)
            with self._lock:
                self._guarded = {outcome: None for outcome in self._guarded if not outcome.done}
                if not self._guarded:
                    self._awake = False
                    return
            error = look()
            if error is not None:
                self.give_up(error)
