"""The smallest change that makes a wrong schedule right: it names the mistake better than its consequences do.

The candidates are the slips that people make, each undone: a chunk index that is one off, the wrong neighbour, a
``Recv`` where a ``Reduce`` belongs, a step too many. A candidate counts if the prover accepts it for every number of
ranks tried, which takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from collectives.proof import prove
from collectives.schedule import Chunk, ChunkLike, Operation, Recv, Reduce, Schedule, Send, Step

from .said import Said

Edit: TypeAlias = Callable[[Sequence[Step], int, int, int], list[Step]]  # (steps, rank, size, chunks) → steps


@dataclass(frozen=True)
class Repair:
    """A change, and the sentence that says what was wrong."""

    sentence: Said
    edit: Edit


def find_repair(schedule: Callable[[int], Schedule], sizes: Sequence[int]) -> Said | None:
    """What is wrong with a schedule, if undoing one slip makes it right for all ``sizes``; O(slips · operations).

    Args:
        schedule: makes it for a number of ranks; the hardest size comes first.
    """
    try:
        longest = max(len(list(schedule(sizes[0]).steps(rank, sizes[0]))) for rank in range(sizes[0]))
    except Exception:  # the learner's program
        return None
    for repair in _candidates(min(longest, 12)):
        if all(_holds(schedule(size), repair.edit, size) for size in sizes):
            return repair.sentence
    return None


def _holds(schedule: Schedule, edit: Edit, size: int) -> bool:
    chunks = schedule.chunk_count(size)

    def program(rank: int, size: int) -> Iterator[Step]:
        yield from edit(list(schedule.steps(rank, size)), rank, size, chunks)

    try:
        prove(Schedule(schedule.collective, program, chunks), size)
    except Exception:  # refused, or the learner's program raised
        return False
    return True


def _candidates(steps: int) -> Iterator[Repair]:
    yield Repair(Said("repair.together"), _merged)
    for name, turn in (("peers", (Send, Recv, Reduce)), ("to", (Send,)), ("source", (Recv, Reduce))):
        yield Repair(Said(f"repair.{name}"), _everywhere(_turned(turn)))
    yield Repair(Said("repair.modulo"), _everywhere(_wrapped))
    yield Repair(Said("repair.last"), lambda steps, rank, size, chunks: list(steps[:-1]))
    yield Repair(Said("repair.first"), lambda steps, rank, size, chunks: list(steps[1:]))
    for sent in _OWNERS:
        for received in _OWNERS:
            if sent != "as_is" or received != "as_is":
                yield Repair(Said(f"repair.owner.{sent}_{received}"), _everywhere(_named(sent, received)))
    for where, said in _places(steps):
        for by in (1, -1, 2, -2):
            fields = {"where": said, "by": abs(by), "fix": f"{by:+d}".replace("-", "−")}
            yield Repair(Said("repair.sent", fields), _at(where, _shifted((Send,), by)))
            yield Repair(Said("repair.received", fields), _at(where, _shifted((Recv, Reduce), by)))
            yield Repair(Said("repair.chunks", fields), _at(where, _shifted((Send, Recv, Reduce), by)))
        yield Repair(Said("repair.reduce", {"where": said}), _at(where, _retyped(Recv, Reduce)))
        yield Repair(Said("repair.recv", {"where": said}), _at(where, _retyped(Reduce, Recv)))


def _places(steps: int) -> Iterator[tuple[range, Said]]:
    """Everywhere, or from a step on, or at one step."""
    yield range(1 << 20), Said("repair.at.all")
    for step in range(1, steps):
        yield range(step, 1 << 20), Said("repair.at.from", {"step": step})
    for step in range(steps):
        yield range(step, step + 1), Said("repair.at.one", {"step": step})


Change: TypeAlias = Callable[[Operation, int, int, int], Operation]  # (operation, rank, size, chunks) → operation


def _everywhere(change: Change) -> Edit:
    return _at(range(1 << 20), change)


def _at(where: range, change: Change) -> Edit:
    def edit(steps: Sequence[Step], rank: int, size: int, chunks: int) -> list[Step]:
        return [
            tuple(change(operation, rank, size, chunks) for operation in step) if index in where else step
            for index, step in enumerate(steps)
        ]

    return edit


def _shifted(kinds: tuple[type[Operation], ...], by: int) -> Change:
    def change(operation: Operation, rank: int, size: int, chunks: int) -> Operation:
        if not isinstance(operation, kinds):
            return operation
        return _with(operation, _moved(operation.chunk, by, chunks), _peer(operation))

    return change


_OWNERS = ("as_is", "own", "peer")  # whose number the chunk has


def _named(sent: str, received: str) -> Change:
    """Chunks by the number of their owner: this rank, or the one at the other end."""

    def change(operation: Operation, rank: int, size: int, chunks: int) -> Operation:
        owner = sent if isinstance(operation, Send) else received
        if owner == "as_is" or chunks != size:
            return operation
        index = rank if owner == "own" else _peer(operation)
        chunk = Chunk(operation.chunk.buffer, index) if isinstance(operation.chunk, Chunk) else index
        return _with(operation, chunk, _peer(operation))

    return change


def _turned(kinds: tuple[type[Operation], ...]) -> Change:
    """The neighbour on the other side."""

    def change(operation: Operation, rank: int, size: int, chunks: int) -> Operation:
        if not isinstance(operation, kinds):
            return operation
        return _with(operation, operation.chunk, (2 * rank - _peer(operation)) % size)

    return change


def _wrapped(operation: Operation, rank: int, size: int, chunks: int) -> Operation:
    """Ranks and chunks modulo their numbers."""
    return _with(operation, _moved(operation.chunk, 0, chunks), _peer(operation) % size)


def _retyped(old: type[Recv] | type[Reduce], new: type[Recv] | type[Reduce]) -> Change:
    def change(operation: Operation, rank: int, size: int, chunks: int) -> Operation:
        return new(operation.chunk, operation.source) if isinstance(operation, old) else operation

    return change


def _merged(steps: Sequence[Step], rank: int, size: int, chunks: int) -> list[Step]:
    """Every two steps of one operation each, one a send and one a receive, in one."""
    merged: list[Step] = []
    for step in steps:
        one = merged[-1] if merged else ()
        if len(one) == len(step) == 1 and isinstance(one[0], Send) != isinstance(step[0], Send):
            merged[-1] = (*one, *step)
        else:
            merged.append(step)
    return merged


def _moved(chunk: ChunkLike, by: int, chunks: int) -> ChunkLike:
    if isinstance(chunk, Chunk):
        return Chunk(chunk.buffer, (chunk.index + by) % chunks)
    return (chunk + by) % chunks


def _peer(operation: Operation) -> int:
    return operation.to if isinstance(operation, Send) else operation.source


def _with(operation: Operation, chunk: ChunkLike, peer: int) -> Operation:
    return type(operation)(chunk, peer)
