# expects: blame: once for each rank that waits
# finding: blame hangs.blame.repeated
# says: Each is named once for every rank that waits for it. Go through the places at which somebody waits, each once.
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Record = dict[str, Any]  # rank, groups, operations; see the lesson's text


def waiting(records: Sequence[Record]) -> list[tuple[str, int] | None]:
    """For each rank, in order, the (group, seq) of the first operation that is not done; None if it waits nowhere."""
    out: list[tuple[str, int] | None] = []
    for r in records:
        out.append(next(((o["group"], o["seq"]) for o in r["operations"] if o["state"] != "done"), None))
    return out


def absent(records: Sequence[Record], group: str, seq: int) -> list[int]:
    """The members of the group that never called its operation ``seq``, in whatever state."""
    members: set[int] = set()
    came = set()
    for r in records:
        members |= set(r["groups"].get(group, []))
        if any((o["group"], o["seq"]) == (group, seq) for o in r["operations"]):
            came.add(r["rank"])
    return sorted(members - came)


def blame(records: Sequence[Record]) -> list[tuple[int, str, int]]:
    """All (rank, group, seq): absent from an operation in which somebody waits, and waiting nowhere itself."""
    where = waiting(records)
    busy = {r["rank"] for r, w in zip(records, where, strict=True) if w}
    return [(rank, *w) for w in where if w for rank in absent(records, *w) if rank not in busy]


def differing(records: Sequence[Record]) -> list[tuple[str, int]]:
    """All (group, seq) under which ranks have called different things, by what they ``said``."""
    said: dict[tuple[str, int], set[str]] = {}
    for r in records:
        for o in r["operations"]:
            said.setdefault((o["group"], o["seq"]), set()).add(o["said"])
    return [key for key, all_said in said.items() if len(all_said) > 1]
