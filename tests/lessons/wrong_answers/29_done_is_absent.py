# expects: absent: only operations that are still open are looked at
# finding: absent hangs.absent.open_only
# says: Only operations that are not done are looked at. A rank that is through with this one has come to it, too.
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Record = dict[str, Any]


def waiting(records: Sequence[Record]) -> list[tuple[str, int] | None]:
    places: list[tuple[str, int] | None] = []
    for record in records:
        unfinished = ((one["group"], one["seq"]) for one in record["operations"] if one["state"] != "done")
        places.append(next(unfinished, None))
    return places


def absent(records: Sequence[Record], group: str, seq: int) -> list[int]:
    members = next(record["groups"][group] for record in records if group in record["groups"])
    came = {
        record["rank"]
        for record in records
        for one in record["operations"]
        if (one["group"], one["seq"]) == (group, seq) and one["state"] != "done"
    }
    return [rank for rank in members if rank not in came]


def blame(records: Sequence[Record]) -> list[tuple[int, str, int]]:
    places = waiting(records)
    return [
        (rank, *place)
        for place in {place for place in places if place is not None}
        for rank in absent(records, *place)
        if places[rank] is None
    ]


def differing(records: Sequence[Record]) -> list[tuple[str, int]]:
    said: dict[tuple[str, int], set[str]] = {}
    for record in records:
        for one in record["operations"]:
            said.setdefault((one["group"], one["seq"]), set()).add(one["said"])
    return [place for place, ways in said.items() if len(ways) > 1]
