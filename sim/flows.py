"""Transfers as flows: what is under way on a network, who shares which link, and when each ends.

A flow of b bytes starts some time after it was asked for (its latency), then runs at its max–min fair rate, which is
computed again whenever a flow that shares a link with it, or with one that does, starts or ends. All that happens at
one instant is taken together: one filling for each set of flows that are connected through links.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .engine import Engine
from .fairness import certify, max_min

_MEMO, _SMALL = 1 << 14, 64  # sets of routes whose rates are kept, and routes in such a set


class Flow:
    """One transfer of ``size`` bytes along ``route``. Times in seconds.

    ``began`` and ``ends`` tell when; ``left`` are the bytes that were left at ``updated``, below 0 when it has ended.
    """

    __slots__ = ("began", "ends", "left", "rate", "route", "size", "updated")

    def __init__(self, route: tuple[int, ...], size: float) -> None:
        self.route, self.size, self.left = route, size, size
        self.began = self.ends = self.updated = self.rate = 0.0


class Flows:
    """The flows on links of the given capacities (bytes a second).

    Args:
        done: called with every flow that ends, at that time.

    ``carried`` are the bytes that each link has carried; ``alone`` counts flows that began alone on their links (the
    narrowest is saturated: nothing to certify); ``fillings`` and ``certified`` count how often rates were
    computed, and how often a new set of routes was certified (the rates of one that came before are remembered).
    """

    def __init__(self, engine: Engine, capacity: Sequence[float], done: Callable[[Flow], None]) -> None:
        self.engine, self.capacity, self.done = engine, capacity, done
        self.carried = [0.0] * len(capacity)
        self.alone = self.fillings = self.certified = 0
        self.changes: list[tuple[float, Flow, float]] | None = None  # (time, flow, its new rate), if it is made a list
        self._on: list[dict[Flow, None]] = [{} for _ in capacity]  # dicts, as sets have no order to rely on
        self._starting: dict[float, list[Flow]] = {}
        self._ending: dict[float, list[Flow]] = {}
        self._started: list[Flow] = []
        self._changed: dict[int, None] = {}  # links that a flow has left
        self._settling = False
        self._width: dict[tuple[int, ...], float] = {}
        self._rates: dict[tuple[tuple[int, ...], ...], list[float]] = {}

    def send(self, flow: Flow, delay: float) -> None:
        """Start a flow in ``delay`` seconds."""
        time = self.engine.now + delay
        waiting = self._starting.get(time)
        if waiting is None:
            self._starting[time] = waiting = []
            self.engine.call(delay, self._start, time)
        waiting.append(flow)

    def _start(self, time: float) -> None:
        now = self.engine.now
        for flow in self._starting.pop(time):
            flow.began = flow.updated = now
            if flow.size > 0 and flow.route:
                for link in flow.route:
                    self._on[link][flow] = None
                self._started.append(flow)
            else:
                self._end_at(now, flow)
        self._settle_later()

    def _end(self, time: float) -> None:
        on, carried = self._on, self.carried
        for flow in self._ending.pop(time):
            if flow.ends != time or flow.left < 0:
                continue  # it was slowed down or sped up since, or has ended
            flow.left, flow.ends = -1.0, self.engine.now
            if self.changes is not None:
                self.changes.append((flow.ends, flow, 0.0))
            for link in flow.route:
                flows = on[link]
                if flow in flows:
                    del flows[flow]
                    carried[link] += flow.size
                    if flows:
                        self._changed[link] = None
            self.done(flow)
        self._settle_later()

    def _settle_later(self) -> None:
        if not self._settling and (self._started or self._changed):
            self._settling = True
            self.engine.call_late(self._settle)

    def _settle(self) -> None:
        """Give every flow whose share may have changed its rate, and its new end."""
        self._settling = False
        on, now = self._on, self.engine.now
        changed = self._changed
        self._changed = {}
        for flow in self._started:
            for link in flow.route:
                if len(on[link]) > 1:
                    changed[link] = None
                    break
            else:  # alone on all its links: the narrowest one is saturated
                width = self._width.get(flow.route)
                if width is None:
                    width = self._width[flow.route] = min([self.capacity[link] for link in flow.route])
                self.alone += 1
                flow.rate = width
                if self.changes is not None:
                    self.changes.append((now, flow, width))
                self._end_at(now + flow.size / width, flow)
        self._started = []
        seen: set[int] = set()
        for link in changed:
            if link not in seen and on[link]:
                self._fill(self._connected(link, seen))

    def _connected(self, link: int, seen: set[int]) -> dict[Flow, None]:
        """All flows that share links with those on ``link``, directly or through others."""
        on = self._on
        flows: dict[Flow, None] = {}
        stack = [link]
        seen.add(link)
        while stack:
            for flow in on[stack.pop()]:
                if flow not in flows:
                    flows[flow] = None
                    for other in flow.route:
                        if other not in seen:
                            seen.add(other)
                            stack.append(other)
        return flows

    def _fill(self, flows: dict[Flow, None]) -> None:
        self.fillings += 1
        ordered = sorted(flows, key=_route)
        routes = tuple([flow.route for flow in ordered])
        rates = self._rates.get(routes)
        if rates is None:
            rates = max_min(routes, self.capacity)
            certify(routes, self.capacity, rates)
            self.certified += 1
            if len(routes) <= _SMALL and len(self._rates) < _MEMO:
                self._rates[routes] = rates
        now = self.engine.now
        for flow, rate in zip(ordered, rates, strict=True):
            if rate != flow.rate:
                flow.left = max(0.0, flow.left - flow.rate * (now - flow.updated))
                flow.updated, flow.rate = now, rate
                if self.changes is not None:
                    self.changes.append((now, flow, rate))
                self._end_at(now + flow.left / rate, flow)

    def _end_at(self, time: float, flow: Flow) -> None:
        flow.ends = time
        ending = self._ending.get(time)
        if ending is None:
            self._ending[time] = ending = []
            self.engine.call(time - self.engine.now, self._end, time)
        ending.append(flow)


def _route(flow: Flow) -> tuple[int, ...]:
    return flow.route
