"""From steps to messages: the one reading of a step that prover, cost model, executor and drawings share.

All operations of one step with one peer and one direction are one message, packed in the order listed; the k-th
message from a to b meets the k-th receive of b from a. A message to oneself is a local copy.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field

from .contract import Contract, Place, contract_of
from .errors import ScheduleError
from .schedule import Recv, Reduce, Schedule, Send, Step


@dataclass(slots=True)
class PackedStep:
    """One step of one rank, by peer: ``sends[to]`` and ``receives[source]`` list places in the order of the message.

    ``receives`` tells for each place whether it is reduced into. A rank's own number is a local copy. ``index`` counts
    what the program yielded, empty steps included.
    """

    index: int
    sends: dict[int, list[Place]] = field(default_factory=dict)
    receives: dict[int, list[tuple[Place, bool]]] = field(default_factory=dict)


def pack(step: Step, index: int, rank: int, size: int, chunks: int, contract: Contract) -> PackedStep:
    """Group the operations of a step into messages, and refuse what no buffer order could make right.

    Raises:
        ScheduleError: an unknown operation, peer or chunk (``missing``), or a race inside the step (``race``).
    """
    packed = PackedStep(index)
    received: dict[Place, bool] = {}
    for operation in step:
        if not isinstance(operation, (Send, Recv, Reduce)):
            raise ScheduleError(
                f"rank {rank} yields {operation!r} at step {index}: a step is a tuple of Send, Recv and Reduce",
                "missing",
                rank,
                index,
            )
        peer = operation.to if isinstance(operation, Send) else operation.source
        verb = type(operation).__name__
        try:
            peer = operator.index(peer)
        except TypeError:
            peer = -1
        if not 0 <= peer < size:
            raise ScheduleError(
                f"{operation} of rank {rank} at step {index}: ranks are 0 to {size - 1}; take the rank modulo size",
                "missing",
                rank,
                index,
            )
        try:
            place = contract.place(operation.chunk, rank, size, chunks)
        except ScheduleError as error:
            raise ScheduleError(f"{error} ({verb} at step {index})", error.kind, rank, index) from None
        if isinstance(operation, Send):
            packed.sends.setdefault(peer, []).append(place)
            continue
        reduces = isinstance(operation, Reduce)
        if place in received and not (reduces and received[place]):
            raise _race(rank, index, place, "is received twice", "give each its own chunk or its own step")
        received[place] = reduces
        packed.receives.setdefault(peer, []).append((place, reduces))
    if len(packed.sends.get(rank, ())) != len(packed.receives.get(rank, ())):
        raise ScheduleError(
            f"rank {rank} at step {index} sends itself {len(packed.sends.get(rank, ()))} chunks and receives "
            f"{len(packed.receives.get(rank, ()))}: a local copy has both ends in one step",
            "missing",
            rank,
            index,
        )
    for places in packed.sends.values():
        for place in places:
            if received.get(place) is False:
                raise _race(rank, index, place, "is sent and received into", "send in an earlier step, or use Reduce")
    return packed


def _race(rank: int, index: int, place: Place, what: str, fix: str) -> ScheduleError:
    return ScheduleError(
        f"rank {rank} has a race at step {index}: {show(place)} {what} in one step, so the result depends on timing; "
        f"{fix}",
        "race",
        rank,
        index,
    )


def show(place: Place) -> str:
    """A place as people say it: ``chunk 3`` or ``scratch[3]``."""
    space, index = place
    return f"chunk {index}" if space == "work" else f"{space}[{index}]"


def chunks_of(schedule: Schedule, size: int) -> int:
    """Chunks of a channel's share, checked against the contract.

    Raises:
        ValueError: fewer than one rank, or a number of chunks that cannot be dealt out evenly to the ranks.
    """
    if size < 1:
        raise ValueError(f"size={size}: a collective needs at least 1 rank")
    count = schedule.chunk_count(size)
    if contract_of(schedule.collective).blocks and count % size:
        raise ValueError(
            f"chunks={count} of {schedule} is no multiple of {size} ranks: {schedule.collective} has one block a rank"
        )
    return count


def unroll(schedule: Schedule, rank: int, size: int, channel: int = 0) -> list[PackedStep]:
    """Every step of one rank in one channel, packed; O(operations). Steps without operations are left out."""
    chunks, contract = chunks_of(schedule, size), contract_of(schedule.collective)
    steps: list[PackedStep] = []
    index = -1
    try:
        for index, step in enumerate(schedule.steps(rank, size, channel)):
            if step:
                steps.append(pack(step, index, rank, size, chunks, contract))
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(
            f"the program of {schedule} raised {type(error).__name__}: {error}, on rank {rank} of {size} after "
            f"{index + 1} steps"
        ) from error
    return steps


def twin(peer: int, rank: int, size: int, row: int) -> int:
    """Who is to ``rank`` what ``peer`` is to rank 0, where ranks stand in rows of ``row``; O(1)."""
    if row == size:
        return (peer + rank) % size
    return (peer // row + rank // row) % (size // row) * row + (peer + rank) % row
