"""The slip that explains a wrong schedule is found, and nothing is found where no single slip does."""

from __future__ import annotations

import time
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


def _scattered(rank: int, size: int) -> Iterator[Step]:
    """Sends other chunks than anybody expects."""
    for step in range(size - 1):
        yield Send((rank * step) % size, to=(rank + 1) % size), Recv((rank - step) % size, source=(rank - 1) % size)


@pytest.mark.parametrize("collective", ["all_reduce", "reduce_scatter", "all_gather", "all_to_all"])
def test_a_search_that_finds_nothing_ends_soon(collective: str) -> None:
    begun = time.process_time()
    assert find_repair(lambda size: Schedule(collective, _scattered), (8, 5, 4, 3, 2)) is None
    assert time.process_time() - begun < 1


def test_a_program_that_raises_has_no_repair() -> None:
    def program(rank: int, size: int) -> Iterator[Step]:
        yield Send(0, to=size // (size - 5)), Recv(0, source=0)

    assert find_repair(lambda size: Schedule("broadcast", program, 1), (5, 4)) is None


def test_the_chunk_of_one_is_number_0() -> None:
    def program(rank: int, size: int) -> Iterator[Step]:
        if rank > 0:
            yield (Recv(rank - 1, source=rank - 1),)
        if rank < size - 1:
            yield (Send(rank, to=rank + 1),)

    found = find_repair(lambda size: Schedule("broadcast", program, 1), SIZES)
    assert found is not None
    assert found.id == "repair.one_chunk"


@pytest.mark.parametrize(
    ("right", "left"),
    [
        (lambda rank, size: rank + 1, lambda rank, size: (rank - 1) % size),
        (lambda rank, size: (rank + 1) % size, lambda rank, size: rank - 1),
    ],
)
def test_ranks_are_taken_modulo(right: Callable[[int, int], int], left: Callable[[int, int], int]) -> None:
    def program(rank: int, size: int) -> Iterator[Step]:
        for step in range(size - 1):
            yield (
                Send((rank - step - 1) % size, to=right(rank, size)),
                Reduce((rank - step - 2) % size, source=left(rank, size)),
            )

    found = find_repair(lambda size: Schedule("reduce_scatter", program), SIZES)
    assert found is not None
    assert found.id == "repair.ranks_modulo"


def test_chunks_are_taken_modulo() -> None:
    def program(rank: int, size: int) -> Iterator[Step]:
        for step in range(size - 1):
            yield (
                Send(rank - step - 1, to=(rank + 1) % size),
                Reduce(rank - step - 2, source=(rank - 1) % size),
            )

    found = find_repair(lambda size: Schedule("reduce_scatter", program), SIZES)
    assert found is not None
    assert found.id == "repair.chunks_modulo"
