"""A discrete-event engine: a heap of who is to be resumed when, processes, events and resources.

A process is a generator. What it yields says when it goes on::

    def sender(engine, port, seconds):
        yield port.take()        # an Event: when it happens
        yield seconds            # a float: after so many seconds
        port.give()

    engine = Engine()
    done = engine.start(sender(engine, Resource(engine), 2.0))
    engine.run()                 # done.happened is True, engine.now is 2.0

An entry of the heap is (time, number, resume, value); ``resume(value)`` is a generator's ``send`` or a plain function,
and its answer (a float, an Event or None) is treated alike. Entries of one instant run in the order in which they were
made, so a run is the same every time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from heapq import heappop, heappush, heapreplace
from itertools import count
from typing import Any, TypeAlias

Resume: TypeAlias = Callable[[Any], Any]
Process: TypeAlias = "Generator[float | Event, Any, Any]"

SAME_INSTANT = 1e-12  # relative: what should end together differs in the last bits


class Engine:
    """A clock in seconds, from 0. O(log pending) an event."""

    def __init__(self) -> None:
        self.now = 0.0
        self._queue: list[tuple[float, int, Resume, Any]] = []
        self._number = count().__next__
        self._late: list[Callable[[], None]] = []

    def call(self, delay: float, function: Resume, value: Any = None) -> None:
        """Call ``function(value)`` in ``delay`` seconds; what it returns is None, or what a process could yield.

        Raises:
            ValueError: a negative delay.
        """
        if delay < 0:
            raise ValueError(f"delay={delay}: time does not run backwards")
        heappush(self._queue, (self.now + delay, self._number(), function, value))

    def call_late(self, function: Callable[[], None]) -> None:
        """Call ``function()`` when everything that happens at this instant has happened."""
        self._late.append(function)

    def start(self, process: Process) -> Event:
        """Let a process begin now. The event that is returned happens when it ends, with what it returned."""
        done = Event(self)
        self.call(0.0, _ending(process, done).send)
        return done

    def run(self) -> None:
        """Go on until nothing is left to do. A process that waits for an event that never happens is left waiting."""
        queue, late, number = self._queue, self._late, self._number
        while queue or late:
            if late and (not queue or queue[0][0] > self.now * (1 + SAME_INSTANT)):
                waiting = late[:]
                late.clear()
                for function in waiting:
                    function()
                continue
            time, _, resume, value = queue[0]
            self.now = time
            try:
                wait = resume(value)
            except StopIteration:
                heappop(queue)
                continue
            if type(wait) is float:  # what was called may have added entries, but none that comes before this one
                heapreplace(queue, (time + wait, number(), resume, None))
            else:
                heappop(queue)
                if isinstance(wait, Event):
                    wait.then(resume)
                elif wait is not None:
                    self.call(float(wait), resume)


def _ending(process: Process, done: Event) -> Process:
    done.happen((yield from process))


class Event:
    """Something that happens once; processes yield it to wait for it."""

    __slots__ = ("_engine", "_waiting", "happened", "value")

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiting: list[Resume] = []
        self.happened = False
        self.value: Any = None

    def happen(self, value: Any = None) -> None:
        """Resume everybody who waits, now, with ``value``."""
        self.happened, self.value = True, value
        for resume in self._waiting:
            self._engine.call(0.0, resume, value)
        self._waiting.clear()

    def then(self, resume: Resume) -> None:
        """Call ``resume(value)`` when it happens; now, if it has."""
        if self.happened:
            self._engine.call(0.0, resume, self.value)
        else:
            self._waiting.append(resume)


def all_of(engine: Engine, events: Iterable[Event]) -> Event:
    """An event that happens when all of ``events`` have."""
    done = Event(engine)
    left = [event for event in events if not event.happened]
    missing = len(left)

    def one(_: Any) -> None:
        nonlocal missing
        missing -= 1
        if missing == 0:
            done.happen()

    for event in left:
        event.then(one)
    if not left:
        done.happen()
    return done


class Resource:
    """``capacity`` places, first come, first served."""

    def __init__(self, engine: Engine, capacity: int = 1) -> None:
        if capacity < 1:
            raise ValueError(f"capacity={capacity}: a resource has at least 1 place")
        self._engine = engine
        self.free = capacity
        self._waiting: deque[Event] = deque()

    def take(self) -> Event:
        """The event that a place is yours; hand it back with ``give``."""
        event = Event(self._engine)
        if self.free:
            self.free -= 1
            event.happen()
        else:
            self._waiting.append(event)
        return event

    def give(self) -> None:
        if self._waiting:
            self._waiting.popleft().happen()
        else:
            self.free += 1
