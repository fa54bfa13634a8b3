"""Who waits for whom: the cycle that makes a deadlock, and the sentence that explains it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wait:
    """``rank`` cannot go on: its ``verb`` (``send`` or ``receive``) with ``peer`` at ``step`` has no other end yet."""

    rank: int
    peer: int
    verb: str
    step: int | None = None


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


def in_words(cycle: list[Wait]) -> str:
    """``rank 0 waits for rank 1, which waits for rank 0: both receive first (…); …`` and how to mend it."""
    chain = ", which waits for ".join(f"rank {wait.peer}" for wait in cycle)
    everybody = "both" if len(cycle) == 2 else f"all {len(cycle)}"
    verbs = {wait.verb for wait in cycle}
    what = f"{everybody} {verbs.pop()} first" if len(verbs) == 1 else "each end waits for an earlier one of the other"
    where = ", ".join(
        f"rank {wait.rank} {wait.verb}s {'to' if wait.verb == 'send' else 'from'} rank {wait.peer}"
        + (f" at step {wait.step}" if wait.step is not None else "")
        for wait in cycle[:6]
    ) + (", …" if len(cycle) > 6 else "")
    return (
        f"rank {cycle[0].rank} waits for {chain}: {what} ({where}); put the send and the receive into one step, "
        "or let one rank do the opposite first"
    )
