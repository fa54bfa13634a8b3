"""The numbers of lesson 1: messages that come one after the other, counted by the cost model."""

from __future__ import annotations

from collections.abc import Iterator

from collectives.cost import Machine, predict
from collectives.registry import find
from collectives.schedule import Buffer, Operation, Program, Recv, Schedule, Send, Step

COUNTING = Machine(alpha=1.0, beta=0.0)  # a message takes one unit of time, whatever it carries
QUEUE, ODD, RELAY = 8, 5, 4  # ranks


def _both(rank: int, size: int) -> tuple[Send, Recv]:
    return Send(0, to=(rank + 1) % size), Recv(Buffer("scratch")[0], source=(rank - 1) % size)


def receive_first(rank: int, size: int) -> Iterator[Operation]:
    """A rotation that stands still: everybody receives first."""
    send, receive = _both(rank, size)
    yield from (receive, send)


def one_sends_first(rank: int, size: int) -> Iterator[Operation]:
    """Rank 0 sends first, all others receive first: no circle, but a queue."""
    send, receive = _both(rank, size)
    yield from (send, receive) if rank == 0 else (receive, send)


def opposite_order(rank: int, size: int) -> Iterator[Operation]:
    """Even ranks send first, odd ranks receive first."""
    send, receive = _both(rank, size)
    yield from (send, receive) if rank % 2 == 0 else (receive, send)


def together(rank: int, size: int) -> Iterator[Step]:
    """One step."""
    yield _both(rank, size)


def _one_after_the_other(program: Program, size: int) -> int:
    return round(predict(Schedule("all_reduce", program, chunks=1), size, 0, COUNTING))


def facts() -> dict[str, str | int | float]:
    return {
        "queue": QUEUE,
        "predict_answer": _one_after_the_other(one_sends_first, QUEUE),
        "predict_tolerance": 0,
        "even": _one_after_the_other(opposite_order, QUEUE),
        "odd": _one_after_the_other(opposite_order, ODD),
        "together": _one_after_the_other(together, QUEUE),
        "ranks": RELAY,
        "relay": round(predict(find("broadcast", "chain:chunks=1"), RELAY, 0, COUNTING)),
    }
