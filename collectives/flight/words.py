"""How flight records are put into words: what was found, ranks, operations, where each rank stands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..sentence import Sentence
from .records import Flights, Flown, Record, Stand


@dataclass(frozen=True)
class Finding:
    """What was found, and whom it is about.

    kind: ``died``, ``raised``, ``order``, ``operation``, ``dtype``, ``shape``, ``algorithm``, ``arguments``, ``cycle``,
    ``missing``, ``absent`` (missing without a record), ``late``, ``failed``; ``messages``, ``buffered`` (of bare sends
    and receives); and what is nothing ``wrong``: ``slow``, ``unknown``, ``unreadable``.
    """

    kind: str
    sentence: Sentence
    ranks: tuple[int, ...] = ()
    wrong: bool = True


def ranks_in_words(ranks: Iterable[int]) -> Sentence:
    """``rank 3`` or ``ranks 0, 2–5``."""
    ranks = sorted(ranks)
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    shown: list[str] = []
    for run in runs:
        shown += [f"{run[0]}–{run[-1]}"] if len(run) > 2 else map(str, run)
    if len(ranks) == 1:
        return Sentence("flight.rank", "rank {ranks}", ranks=tuple(shown))
    return Sentence("flight.ranks", "ranks {ranks}", ranks=tuple(shown))


def seconds(length: float) -> str:
    """``0.25``, ``3.1`` or ``120``: as many digits as matter."""
    return f"{length:.2f}" if length < 1 else f"{length:.1f}" if length < 100 else f"{length:.0f}"


def last_of(flights: Flights, record: Record) -> Sentence:
    """What a rank did last."""
    if not record.operations:
        return Sentence("flight.did_nothing", "it has called nothing")
    last = record.operations[-1]
    called = flights.called(last)
    if last.state == "done" and last.ended and record.written:
        ago = seconds(max(0.0, record.written - last.ended))
        return Sentence(
            "flight.did_last_and_ended",
            "its last operation, {operation}, had ended {seconds} s before it wrote its record",
            operation=called,
            seconds=ago,
        )
    return Sentence("flight.did_last", "its last operation was {operation}", operation=called)


def standing(flights: Flights) -> list[Sentence]:
    """Where every rank stands, a line each."""
    return [_standing(flights, rank) for rank in range(flights.size)]


def chain(flights: Flights) -> Sentence | None:
    """The longest chain of ranks of which each waits for the next, inside of operations."""
    waits = {
        entry.rank: entry.stands[0].peer
        for record in flights.records.values()
        for entry in record.operations
        if entry.open and entry.stands
    }
    longest: list[int] = []
    for start in sorted(waits):
        path = [start]
        while path[-1] in waits and waits[path[-1]] not in path:
            path.append(waits[path[-1]])
        if path[-1] in waits:  # and so to one who is in it already
            path.append(waits[path[-1]])
        longest = max(longest, path, key=len)
    if len(longest) < 2:
        return None
    first, second, *rest = longest
    links = [Sentence("flight.which_waits", "which waits for rank {peer}", peer=peer) for peer in rest]
    chain = (ranks_in_words([second]), *links)
    return Sentence("flight.chain", "rank {rank} waits for {chain}", rank=first, chain=chain)


def _standing(flights: Flights, rank: int) -> Sentence:
    record = flights.records.get(rank)
    if record is None:
        return Sentence("flight.stands_nowhere", "rank {rank}: no record", rank=rank)
    under_way = [operation for operation in record.operations if operation.open]
    if not under_way:
        return Sentence(
            "flight.stands_outside", "rank {rank}: in no operation; {last}", rank=rank, last=last_of(flights, record)
        )
    first = under_way[0]
    more = len(under_way) - 1
    return Sentence(
        "flight.stands_in",
        "rank {rank}: {operation}{algorithm}, {state}{stands}{more}",
        rank=rank,
        operation=flights.called(first),
        algorithm=f", {first.algorithm}" if first.algorithm else "",
        state=_state(first, record),
        stands=tuple(_stand(stand) for stand in first.stands),
        more=Sentence("flight.more", "; {count} more behind it", count=more) if more else "",
    )


def _state(operation: Flown, record: Record) -> Sentence:
    until = operation.ended or record.written
    since = seconds(max(0.0, until - (operation.started or operation.queued)))
    if operation.state == "failed":
        if not operation.ended:
            return Sentence("flight.timed_out", "timed out")
        return Sentence("flight.has_failed", "failed after {seconds} s", seconds=since)
    if not record.written:
        return Sentence("flight.under_way", "under way")
    if operation.state == "queued":
        return Sentence("flight.is_queued", "queued for {seconds} s", seconds=since)
    return Sentence("flight.is_under_way", "under way for {seconds} s", seconds=since)


def _stand(stand: Stand) -> Sentence:
    step = "" if stand.step is None else Sentence("flight.step", " at step {step}", step=stand.step)
    verb = stand.verb.removesuffix(" to").removesuffix(" from")
    if verb == "send":
        return Sentence("flight.to_send", "; waits{step} to send to rank {peer}", step=step, peer=stand.peer)
    if verb == "receive":
        return Sentence("flight.to_receive", "; waits{step} to receive from rank {peer}", step=step, peer=stand.peer)
    return Sentence("flight.to_hear", "; waits{step} to hear from rank {peer}", step=step, peer=stand.peer)
