"""The numbers of lesson 1: messages that come one after the other, counted by the cost model."""

from __future__ import annotations

from collections.abc import Iterator

from collectives.cost import Machine, predict
from collectives.registry import find
from collectives.schedule import Buffer, Operation, Program, Recv, Schedule, Send, Step
from sim.units import show_bytes, show_time

COUNTING = Machine(alpha=1.0, beta=0.0)  # a message takes one unit of time, whatever it carries
QUEUE, ODD, RELAY, CROWD = 8, 5, 4, 64  # ranks
TOKENS, WIDTH, LINK = 2048, 4096, 25e9  # of a microbatch in bf16, and bytes a second
LATENCY = 12e-6


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


def _relay(size: int, alpha: float) -> float:
    return predict(find("broadcast", "chain:chunks=1"), size, 0, Machine(alpha, beta=0.0))


def facts() -> dict[str, str | int | float]:
    nbytes, link = 2 * TOKENS * WIDTH, Machine(alpha=0.0, beta=1 / LINK)
    rotation = predict(Schedule("all_reduce", opposite_order, chunks=1), QUEUE, nbytes, link)
    return {
        "tokens": f"{TOKENS:,}",
        "width": f"{WIDTH:,}",
        "link": f"{LINK / 1e9:g} GB/s",
        "activations": show_bytes(nbytes),
        "message": show_time(nbytes / LINK),
        "calculate_1_answer": rotation * 1e6,
        "calculate_1_tolerance": 0.02,
        "relay_ranks": CROWD,
        "latency": show_time(LATENCY),
        "relay_messages": round(_relay(CROWD, 1.0)),
        "tree_messages": round(predict(find("broadcast", "binomial"), CROWD, 0, COUNTING)),
        "calculate_2_answer": _relay(CROWD, LATENCY) * 1e6,
        "calculate_2_tolerance": 0.001,
        "queue": QUEUE,
        "predict_answer": _one_after_the_other(one_sends_first, QUEUE),
        "predict_tolerance": 0,
        "even": _one_after_the_other(opposite_order, QUEUE),
        "odd": _one_after_the_other(opposite_order, ODD),
        "together": _one_after_the_other(together, QUEUE),
        "ranks": RELAY,
        "relay": round(predict(find("broadcast", "chain:chunks=1"), RELAY, 0, COUNTING)),
    }
