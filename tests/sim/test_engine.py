"""The engine: time, order, events, resources."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from sim.engine import Engine, Event, Resource, all_of


def test_entries_run_by_time_and_at_one_time_in_the_order_in_which_they_were_made() -> None:
    engine, seen = Engine(), []
    rng = random.Random(0)
    entries = [(rng.choice([0.0, 1.5, 1.5, 2.25, 7.0]), number) for number in range(200)]
    for delay, number in entries:
        engine.call(delay, lambda value: seen.append((engine.now, value)), number)
    engine.run()
    assert seen == sorted(entries, key=lambda entry: entry[0])


def test_a_process_waits_for_floats_ints_events_and_other_processes() -> None:
    engine, log = Engine(), []
    bell = Event(engine)

    def ringer() -> Iterator[Any]:
        yield 2.5
        bell.happen("ding")
        yield 1
        return "over"

    def listener() -> Iterator[Any]:
        log.append((yield bell))
        log.append(engine.now)
        log.append((yield done))
        log.append(engine.now)
        log.append((yield bell))  # it has happened: no waiting
        log.append(engine.now)

    done = engine.start(ringer())  # type: ignore[arg-type]
    engine.start(listener())  # type: ignore[arg-type]
    engine.run()
    assert log == ["ding", 2.5, "over", 3.5, "ding", 3.5]


def test_what_a_process_starts_at_this_instant_runs_before_time_goes_on() -> None:
    engine, log = Engine(), []

    def parent() -> Iterator[float]:
        engine.call(0.0, lambda _: log.append(engine.now))
        engine.call(1e-9, lambda _: log.append(engine.now))
        yield 1.0
        log.append(engine.now)

    engine.start(parent())  # type: ignore[arg-type]
    engine.run()
    assert log == [0.0, 1e-9, 1.0]


def test_late_calls_come_after_all_of_their_instant_and_can_make_more_of_it() -> None:
    engine, log = Engine(), []

    def late() -> None:
        log.append(("late", engine.now))
        if engine.now < 2:
            engine.call(0.0, lambda _: log.append(("again", engine.now)))

    for time in (1.0, 1.0 + 1e-15, 2.0):  # the first two differ in the last bits only
        engine.call(time, lambda _: (log.append(("event", round(engine.now, 9))), engine.call_late(late))[0])
    engine.run()
    kinds = [kind for kind, _ in log]
    assert kinds == ["event", "event", "late", "late", "again", "again", "event", "late"]


@pytest.mark.parametrize("capacity", [1, 2, 3])
def test_a_resource_serves_first_come_first_served(capacity: int) -> None:
    """Against an independent queue: each goes to the server that is free first."""
    rng = random.Random(capacity)
    jobs = sorted((rng.uniform(0, 10), rng.uniform(0.1, 3)) for _ in range(60))
    servers, wanted = [0.0] * capacity, []
    for arrives, takes in jobs:
        servers.sort()
        servers[0] = max(servers[0], arrives) + takes
        wanted.append(servers[0])
    engine, ends = Engine(), []
    resource = Resource(engine, capacity)

    def job(arrives: float, takes: float) -> Iterator[Any]:
        yield arrives
        yield resource.take()
        yield takes
        resource.give()
        ends.append(engine.now)

    for arrives, takes in jobs:
        engine.start(job(arrives, takes))  # type: ignore[arg-type]
    engine.run()
    assert sorted(ends) == pytest.approx(sorted(wanted), rel=1e-12)
    assert resource.free == capacity


def test_all_of_happens_with_the_last_one_and_at_once_when_there_is_none_left() -> None:
    engine, log = Engine(), []
    events = [Event(engine) for _ in range(3)]
    for delay, event in zip((3.0, 1.0, 2.0), events, strict=True):
        engine.call(delay, lambda _, event=event: event.happen())

    def waiter() -> Iterator[Event]:
        yield all_of(engine, events)
        log.append(engine.now)
        yield all_of(engine, events)
        yield all_of(engine, [])
        log.append(engine.now)

    engine.start(waiter())  # type: ignore[arg-type]
    engine.run()
    assert log == [3.0, 3.0]


def test_a_resource_without_places_is_refused() -> None:
    with pytest.raises(ValueError, match="capacity=0"):
        Resource(Engine(), 0)


def test_time_does_not_run_backwards() -> None:
    with pytest.raises(ValueError, match="backwards"):
        Engine().call(-1.0, print)
