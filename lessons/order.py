"""What a check finds, in the order in which the lesson speaks of its functions, though schedules are cheap and come
first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .checks.bare import Bare
from .checks.launched import Launched
from .checks.measurement import Measurement
from .checks.trial import Trial
from .lesson import Check
from .said import Finding, Passed, Said, Shown, Skipped

Event = Said | Passed | Finding | Shown | Skipped


class InOrder:
    """Hands events on: those of a function when all functions before it have had their turn.

    Turns come in two rounds, each in order: functions that are proved or computed, then those that are run bare. What
    has begun (a ``Said``) is handed on at once, what belongs to no function after all that is held.
    """

    def __init__(self, checks: Sequence[Check], hand_on: Callable[[Event], None]) -> None:
        judged = [check for check in checks if not isinstance(check, Measurement)]
        self.order = [check.function for check in judged]
        self.bare = {check.function for check in judged if isinstance(check, (Bare, Launched, Trial))}
        self.waits_for = set(self.order)  # functions whose turn may still come
        self.held: dict[str, list[Event]] = {name: [] for name in self.order}
        self.hand_on = hand_on

    def heard(self, event: Event) -> None:
        if isinstance(event, Said):
            begun = event.fields.get("functions", ())
            if isinstance(begun, list) and begun and not self.bare & set(begun):
                self.waits_for -= self.bare  # schedules are run when these have been
            self.hand_on(event)
            return
        name = "" if isinstance(event, Shown) else event.function
        if name not in self.held:
            self.close()
            self.hand_on(event)
            return
        place = self.order.index(name)
        self.waits_for -= {other for other in self.order[: place + 1] if (other in self.bare) == (name in self.bare)}
        self.held[name].append(event)
        if not self.waits_for & set(self.order[:place]):
            self._release(self.order[: place + 1])

    def close(self) -> None:
        """Nothing more comes."""
        self._release(self.order)

    def _release(self, names: Sequence[str]) -> None:
        for name in names:
            events, self.held[name] = self.held[name], []
            for event in events:
                self.hand_on(event)
