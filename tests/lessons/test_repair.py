"""The slip that explains a wrong schedule is found, and nothing is found where no single slip does."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from collectives import ring
from collectives.schedule import Operation, Recv, Reduce, Schedule, Send, Step
from lessons.repair import find_repair

SIZES = (3, 5, 4, 2)
Slip = Callable[[Operation, int, int, int], Operation]  # (operation, step, rank, size)


def _with(slip: Slip) -> Callable[[int], Schedule]:
    def program(rank: int, size: int) -> Iterator[Step]:
        for number, step in enumerate(ring.reduce_scatter.steps(rank, size)):
            yield tuple(slip(operation, number, rank, size) for operation in step)

    return lambda size: Schedule("reduce_scatter", program)


def _sent(by: int) -> Slip:
    return lambda o, step, rank, size: Send((o.chunk + by) % size, o.to) if isinstance(o, Send) else o  # type: ignore[operator]


def _received_at_1(o: Operation, step: int, rank: int, size: int) -> Operation:
    return Reduce((o.chunk + 1) % size, o.source) if isinstance(o, Reduce) and step == 1 else o  # type: ignore[operator]


def _wrong_side(o: Operation, step: int, rank: int, size: int) -> Operation:
    return Reduce(o.chunk, (rank + 1) % size) if isinstance(o, Reduce) else o


def _replaced(o: Operation, step: int, rank: int, size: int) -> Operation:
    return Recv(o.chunk, o.source) if isinstance(o, Reduce) else o


@pytest.mark.parametrize(
    ("slip", "sentence", "fields"),
    [
        (_sent(1), "repair.sent", {"by": 1, "fix": "−1"}),
        (_sent(-2), "repair.sent", {"by": 2, "fix": "+2"}),
        (_received_at_1, "repair.received", {"by": 1, "fix": "−1"}),
        (_wrong_side, "repair.source", {}),
        (_replaced, "repair.reduce", {}),
    ],
)
def test_one_slip_is_named(slip: Slip, sentence: str, fields: dict[str, object]) -> None:
    found = find_repair(_with(slip), SIZES)
    assert found is not None
    assert found.id == sentence
    assert fields.items() <= found.fields.items()


def test_where_the_slip_is_is_told() -> None:
    found = find_repair(_with(_received_at_1), (4, 5, 3))
    assert found is not None
    where = found.fields["where"]
    assert getattr(where, "id", None) == "repair.at.one"
    assert getattr(where, "fields", None) == {"step": 1}


def test_a_right_schedule_with_a_step_too_many() -> None:
    def program(rank: int, size: int) -> Iterator[Step]:
        yield from ring.reduce_scatter.steps(rank, size)
        yield Send(rank, to=(rank + 1) % size), Reduce((rank - 1) % size, source=(rank - 1) % size)

    found = find_repair(lambda size: Schedule("reduce_scatter", program), SIZES)
    assert found is not None
    assert found.id == "repair.last"


def test_nothing_is_said_of_what_no_slip_explains() -> None:
    def program(rank: int, size: int) -> Iterator[Step]:
        yield Send(0, to=(rank + 1) % size), Reduce(0, source=(rank - 1) % size)

    assert find_repair(lambda size: Schedule("reduce_scatter", program), SIZES) is None
