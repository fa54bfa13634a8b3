"""Who waits for whom: the cycle that makes a deadlock, and the sentence that explains it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .sentence import Sentence


@dataclass(frozen=True, slots=True)
class Wait:
    """``rank`` cannot go on: its ``verb`` with ``peer`` at ``step`` has no other end yet.

    verb: ``send``, ``receive``, or the name of a collective. where: the line of code (``ring.py:12``), if known.
    """

    rank: int
    peer: int
    verb: str
    step: int | None = None
    where: str = ""


def find_cycle(waits: Mapping[int, Wait]) -> list[Wait]:
    """The ranks that wait for each other in a circle, the smallest first; empty if the chain ends somewhere. O(n)."""
    done: set[int] = set()
    for start in sorted(waits):
        path: dict[int, int] = {}
        rank = start
        while rank in waits and rank not in path and rank not in done:
            path[rank] = len(path)
            rank = waits[rank].peer
        if rank in path:
            ranks = list(path)[path[rank] :]
            first = ranks.index(min(ranks))
            return [waits[r] for r in ranks[first:] + ranks[:first]]
        done |= path.keys()
    return []


def in_words(cycle: Sequence[Wait]) -> Sentence:
    """``rank 0 waits for rank 1, which waits for rank 0: both receive first (…); …`` and how to mend it."""
    first = cycle[0]
    chain = [Sentence("waits.for", "rank {rank}", rank=first.peer)]
    chain += [Sentence("waits.which", "which waits for rank {rank}", rank=wait.peer) for wait in cycle[1:]]
    ends = [_end(wait) for wait in cycle[:6]]
    if len(cycle) > 6:
        ends.append(Sentence("waits.more", "…"))
    places = [
        Sentence("waits.place", "rank {rank} at {where}", rank=wait.rank, where=wait.where)
        for wait in cycle
        if wait.where
    ]
    return Sentence(
        "waits.cycle",
        "rank {rank} waits for {chain}: {what} ({ends}); {cure}, or let one rank do the opposite first{places}",
        rank=first.rank,
        step=first.step,
        ranks=tuple(wait.rank for wait in cycle),
        verbs=tuple(wait.verb for wait in cycle),
        chain=tuple(chain),
        what=_what(cycle),
        ends=tuple(ends),
        cure=_cure(cycle),
        places=Sentence("waits.places", " [{places}]", places=tuple(places)) if places else "",
    )


def _what(cycle: Sequence[Wait]) -> Sentence:
    verbs = {wait.verb for wait in cycle}
    if verbs == {"send"}:
        if len(cycle) == 2:
            return Sentence("waits.both_send", "both send first")
        return Sentence("waits.all_send", "all {count} send first", count=len(cycle))
    if verbs == {"receive"}:
        if len(cycle) == 2:
            return Sentence("waits.both_receive", "both receive first")
        return Sentence("waits.all_receive", "all {count} receive first", count=len(cycle))
    return Sentence("waits.crossed", "each end waits for an earlier one of the other")


def _cure(cycle: Sequence[Wait]) -> Sentence:
    """Bare calls have no steps."""
    if cycle[0].step is None:
        return Sentence("waits.begin", "begin the send and the receive together, with isend and irecv")
    return Sentence("waits.together", "put the send and the receive into one step")


def _end(wait: Wait) -> Sentence:
    rank, peer, verb = wait.rank, wait.peer, wait.verb
    at = "" if wait.step is None else Sentence("waits.step", " at step {step}", step=wait.step)
    if verb == "send":
        return Sentence("waits.sends", "rank {rank} sends to rank {peer}{at}", rank=rank, peer=peer, at=at)
    if verb == "receive":
        return Sentence("waits.receives", "rank {rank} receives from rank {peer}{at}", rank=rank, peer=peer, at=at)
    return Sentence(
        "waits.stands", "rank {rank} stands in {verb} without rank {peer}{at}", rank=rank, verb=verb, peer=peer, at=at
    )
