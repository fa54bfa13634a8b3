"""Changes to the steps of a schedule: what undoes a slip."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from collectives.schedule import Buffer, Chunk, ChunkLike, Operation, Recv, Reduce, Send, Step

Edit: TypeAlias = Callable[[Sequence[Step], int, int, int], list[Step]]  # (steps, rank, size, chunks) → steps
Change: TypeAlias = Callable[[Operation, int, int, int], Operation]  # (operation, rank, size, chunks) → operation


def everywhere(change: Change) -> Edit:
    return at_steps(range(1 << 20), change)


def at_steps(where: range, change: Change) -> Edit:
    def edit(steps: Sequence[Step], rank: int, size: int, chunks: int) -> list[Step]:
        return [
            tuple(change(operation, rank, size, chunks) for operation in step) if index in where else step
            for index, step in enumerate(steps)
        ]

    return edit


def on_ranks(chosen: Callable[[int], bool], edit: Edit) -> Edit:
    """On some ranks only."""
    return lambda steps, rank, size, chunks: edit(steps, rank, size, chunks) if chosen(rank) else list(steps)


def where_it_sends(edit: Edit) -> Edit:
    """In the steps that send as well."""

    def exchange(steps: Sequence[Step], rank: int, size: int, chunks: int) -> list[Step]:
        return [
            edited if any(isinstance(one, Send) for one in step) else step
            for step, edited in zip(steps, edit(steps, rank, size, chunks), strict=True)
        ]

    return exchange


def at_the_end(edit: Edit) -> Edit:
    """The last step of a rank, if it only receives."""

    def last(steps: Sequence[Step], rank: int, size: int, chunks: int) -> list[Step]:
        if not steps or any(isinstance(one, Send) for one in steps[-1]):
            return list(steps)
        return [*steps[:-1], *edit(steps[-1:], rank, size, chunks)]

    return last


def without(unwanted: Callable[[Operation, int, int], bool]) -> Edit:
    def edit(steps: Sequence[Step], rank: int, size: int, chunks: int) -> list[Step]:
        kept = [tuple(one for one in step if not unwanted(one, rank, size)) for step in steps]
        return [step for step in kept if step]

    return edit


def in_pairs(steps: Sequence[Step], rank: int, size: int, chunks: int) -> list[Step]:
    """Every two steps of one operation each, one a send and one a receive, in one."""
    merged: list[Step] = []
    for step in steps:
        one = merged[-1] if merged else ()
        if len(one) == len(step) == 1 and isinstance(one[0], Send) != isinstance(step[0], Send):
            merged[-1] = (*one, *step)
        else:
            merged.append(step)
    return merged


def in_one(steps: Sequence[Step], rank: int, size: int, chunks: int) -> list[Step]:
    """All in one step."""
    return [tuple(operation for step in steps for operation in step)]


def one_by_one(steps: Sequence[Step], rank: int, size: int, chunks: int) -> list[Step]:
    """A step for each send and its receive, where all stand in one."""
    if len(steps) != 1:
        return list(steps)
    sends, receives = _parts(steps[0])
    return list(zip(sends, receives, strict=True))


def _parts(step: Step) -> tuple[Step, Step]:
    """Its sends, and its receives."""
    sends = tuple(one for one in step if isinstance(one, Send))
    return sends, tuple(one for one in step if not isinstance(one, Send))


def racing(step: Step) -> bool:
    """Whether a chunk is sent and replaced."""
    sends, receives = _parts(step)
    return bool({one.chunk for one in sends} & {one.chunk for one in receives if isinstance(one, Recv)})


def apart(chosen: Callable[[Step], bool], *, receive_first: bool) -> Edit:
    """Two steps of one."""

    def edit(steps: Sequence[Step], rank: int, size: int, chunks: int) -> list[Step]:
        parted: list[Step] = []
        for step in steps:
            sends, receives = _parts(step)
            both = (receives, sends) if receive_first else (sends, receives)
            parted += [part for part in both if part] if chosen(step) else [step]
        return parted

    return edit


def around_root(steps: Sequence[Step], rank: int, size: int, chunks: int) -> list[Step]:
    """Where all stand in one step, rank 0 receives before it sends, and the others do the opposite."""
    if len(steps) != 1:
        return list(steps)
    return apart(lambda step: True, receive_first=rank == 0)(steps, rank, size, chunks)


def receives_first(steps: Sequence[Step], rank: int, size: int, chunks: int) -> list[Step]:
    """Steps that only receive come before those that send."""
    return sorted(steps, key=lambda step: any(isinstance(one, Send) for one in step))


def sends_to(operation: Operation, rank: int) -> bool:
    return isinstance(operation, Send) and operation.to == rank


def to_the_other_side(kinds: tuple[type[Operation], ...]) -> Change:
    """The neighbour on the other side."""

    def change(operation: Operation, rank: int, size: int, chunks: int) -> Operation:
        if not isinstance(operation, kinds):
            return operation
        return renamed(operation, operation.chunk, (2 * rank - peer_of(operation)) % size)

    return change


def wrapped(*, ranks: bool, chunks: bool) -> Change:
    """Ranks or chunks modulo their numbers."""

    def change(operation: Operation, rank: int, size: int, count: int) -> Operation:
        chunk = _moved(operation.chunk, 0, count) if chunks else operation.chunk
        return renamed(operation, chunk, peer_of(operation) % size if ranks else peer_of(operation))

    return change


def from_owner(operation: Operation, rank: int, size: int, chunks: int) -> Operation:
    """What is received comes from the rank with the number of the chunk."""
    if isinstance(operation, Send) or chunks != size or isinstance(operation.chunk, Chunk):
        return operation
    return renamed(operation, operation.chunk, operation.chunk)


def in_their_buffers(operation: Operation, rank: int, size: int, chunks: int) -> Operation:
    """Sent from the input, received into the output."""
    index = operation.chunk.index if isinstance(operation.chunk, Chunk) else operation.chunk
    buffer = Buffer("input" if isinstance(operation, Send) else "output")
    return renamed(operation, buffer[index], peer_of(operation))


def exchanged(steps: Sequence[Step], rank: int, size: int, chunks: int) -> list[Step]:
    """In a step of a send and a receive, the chunk of the one for that of the other."""
    return [
        (renamed(step[0], step[1].chunk, peer_of(step[0])), renamed(step[1], step[0].chunk, peer_of(step[1])))
        if len(step) == 2 and isinstance(step[0], Send) != isinstance(step[1], Send)
        else step
        for step in steps
    ]


def passed_on(steps: Sequence[Step], rank: int, size: int, chunks: int) -> list[Step]:
    """From the second step on, what is sent is what came in the step before."""
    passed: list[Step] = []
    came: ChunkLike | None = None
    for step in steps:
        step = tuple(one if came is None or not isinstance(one, Send) else Send(came, one.to) for one in step)
        came = next((one.chunk for one in reversed(step) if not isinstance(one, Send)), came)
        passed.append(step)
    return passed


def shifted(kinds: tuple[type[Operation], ...], by: int) -> Change:
    def change(operation: Operation, rank: int, size: int, chunks: int) -> Operation:
        if not isinstance(operation, kinds):
            return operation
        return renamed(operation, _moved(operation.chunk, by, chunks), peer_of(operation))

    return change


OWNERS = ("as_is", "own", "peer")  # whose number the chunk has


def by_owner(sent: str, received: str) -> Change:
    """Chunks by the number of their owner: this rank, or the one at the other end."""

    def change(operation: Operation, rank: int, size: int, chunks: int) -> Operation:
        owner = sent if isinstance(operation, Send) else received
        if owner == "as_is" or chunks != size:
            return operation
        index = rank if owner == "own" else peer_of(operation)
        chunk = Chunk(operation.chunk.buffer, index) if isinstance(operation.chunk, Chunk) else index
        return renamed(operation, chunk, peer_of(operation))

    return change


def retyped(old: type[Recv] | type[Reduce], new: type[Recv] | type[Reduce]) -> Change:
    def change(operation: Operation, rank: int, size: int, chunks: int) -> Operation:
        return new(operation.chunk, operation.source) if isinstance(operation, old) else operation

    return change


def _moved(chunk: ChunkLike, by: int, chunks: int) -> ChunkLike:
    if isinstance(chunk, Chunk):
        return Chunk(chunk.buffer, (chunk.index + by) % chunks)
    return (chunk + by) % chunks


def peer_of(operation: Operation) -> int:
    return operation.to if isinstance(operation, Send) else operation.source


def renamed(operation: Operation, chunk: ChunkLike, peer: ChunkLike) -> Operation:
    return type(operation)(chunk, peer)  # type: ignore[arg-type]  # chunk and rank may be exchanged
