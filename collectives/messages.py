"""From steps to messages: the one reading of a step that prover, cost model, executor and drawings share.

All operations of one step with one peer and one direction are one message, packed in the order listed; the k-th
message from a to b meets the k-th receive of b from a. A message to oneself is a local copy.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, field

from .contract import Contract, Place, contract_of
from .errors import ScheduleError
from .schedule import Recv, Reduce, Schedule, Send, Step
from .sentence import Sentence


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
            if isinstance(operation, (tuple, list, Iterator)):
                raise ScheduleError(
                    Sentence(
                        "messages.nested",
                        "rank {rank} yields {operation} inside step {step}: a step holds operations, no steps "
                        "or lists; write yield from for the steps of another program, and yield (*sends, *receives) "
                        "for lists",
                        rank=rank,
                        step=index,
                        operation=repr(operation),
                    ),
                    "missing",
                )
            if isinstance(operation, type) and issubclass(operation, (Send, Recv, Reduce)):
                raise ScheduleError(
                    Sentence(
                        "messages.bare_class",
                        "rank {rank} yields {name} at step {step} without saying of which chunk, and with which rank: "
                        "write {name}(chunk, {peer}=…)",
                        rank=rank,
                        step=index,
                        name=operation.__name__,
                        peer="to" if issubclass(operation, Send) else "source",
                    ),
                    "missing",
                )
            raise ScheduleError(
                Sentence(
                    "messages.no_operation",
                    "rank {rank} yields {operation} at step {step}: a step is a tuple of Send, Recv and Reduce",
                    rank=rank,
                    step=index,
                    operation=repr(operation),
                ),
                "missing",
            )
        peer = operation.to if isinstance(operation, Send) else operation.source
        try:
            peer = operator.index(peer)
        except TypeError:
            raise ScheduleError(
                Sentence(
                    "messages.no_whole_rank",
                    "{operation} of rank {rank} at step {step}: a rank is a whole number; "
                    "if it comes from a division, use //",
                    rank=rank,
                    step=index,
                    operation=str(operation),
                ),
                "missing",
            ) from None
        if not 0 <= peer < size:
            raise ScheduleError(
                Sentence(
                    "messages.no_such_rank",
                    "{operation} of rank {rank} at step {step}: ranks are 0 to {last}; "
                    "leave the operation out where there is no such rank",
                    rank=rank,
                    step=index,
                    operation=str(operation),
                    last=size - 1,
                ),
                "missing",
            )
        try:
            place = contract.place(operation.chunk, rank, size, chunks)
        except ScheduleError as error:
            raise ScheduleError(
                Sentence(
                    "messages.in_operation",
                    "{sentence} ({verb} at step {step})",
                    rank=rank,
                    step=index,
                    sentence=error.sentence,
                    verb=type(operation).__name__,
                ),
                error.kind,
            ) from None
        if isinstance(operation, Send):
            packed.sends.setdefault(peer, []).append(place)
            continue
        reduces = isinstance(operation, Reduce)
        if place in received and not (reduces and received[place]):
            raise ScheduleError(
                Sentence(
                    "messages.race_of_receives",
                    "rank {rank} has a race at step {step}: {place} is received twice in one step, so the result "
                    "depends on timing; give each its own chunk or its own step",
                    rank=rank,
                    step=index,
                    place=show(place),
                ),
                "race",
            )
        received[place] = reduces
        packed.receives.setdefault(peer, []).append((place, reduces))
    if len(packed.sends.get(rank, ())) != len(packed.receives.get(rank, ())):
        raise ScheduleError(
            Sentence(
                "messages.half_a_copy",
                "rank {rank} at step {step} does not send itself as many chunks ({sent}) as it receives ({received}): "
                "a local copy has both ends in one step",
                rank=rank,
                step=index,
                sent=len(packed.sends.get(rank, ())),
                received=len(packed.receives.get(rank, ())),
            ),
            "missing",
        )
    for places in packed.sends.values():
        for place in places:
            if received.get(place) is False:
                raise ScheduleError(
                    Sentence(
                        "messages.race_of_send_and_receive",
                        "rank {rank} has a race at step {step}: {place} is sent and received into in one step, so the "
                        "result depends on timing; receive in an earlier step if it is passed on, send in an earlier "
                        "one if it is replaced, or use Reduce",
                        rank=rank,
                        step=index,
                        place=show(place),
                    ),
                    "race",
                )
    return packed


def show(place: Place) -> Sentence:
    """A place as people say it: ``chunk 3`` or ``scratch[3]``."""
    space, index = place
    if space == "work":
        return Sentence("place.chunk", "chunk {index}", index=index)
    return Sentence("place.buffer", "{buffer}[{index}]", buffer=space, index=index)


def chunks_of(schedule: Schedule, size: int) -> int:
    """Chunks of a channel's share, checked against the contract.

    Raises:
        ValueError: fewer than one rank, or a number of chunks that cannot be dealt out evenly to the ranks.
    """
    if size < 1:
        raise ValueError(Sentence("messages.no_ranks", "size={size}: a collective needs at least 1 rank", size=size))
    count = schedule.chunk_count(size)
    if contract_of(schedule.collective).blocks and count % size:
        raise ValueError(
            Sentence(
                "messages.no_multiple",
                "chunks={chunks} of {schedule} is no multiple of {size} ranks: {collective} has one block a rank",
                chunks=count,
                schedule=str(schedule),
                size=size,
                collective=schedule.collective,
            )
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
            Sentence(
                "messages.program_raised",
                "the program of {schedule} raised {type}: {message}, on rank {rank} of {size} "
                "(steps before that: {steps})",
                schedule=str(schedule),
                type=type(error).__name__,
                message=str(error),
                rank=rank,
                size=size,
                steps=index + 1,
            )
        ) from error
    return steps


def twin(peer: int, rank: int, size: int, row: int) -> int:
    """Who is to ``rank`` what ``peer`` is to rank 0, where ranks stand in rows of ``row``; O(1)."""
    if row == size:
        return (peer + rank) % size
    return (peer // row + rank // row) % (size // row) * row + (peer + rank) % row
