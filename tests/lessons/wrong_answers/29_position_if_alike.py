# expects: differing: the lines at one position of the buffers, if they have one group and number
# finding: differing hangs.differing.position_alike
# says: Lines are compared only where they happen to stand in the same place of all records. A record that has overwritten more, or is of other groups, has the same operation in another place: look for its group and seq, not for its place.
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
        if (one["group"], one["seq"]) == (group, seq)
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
    rows = zip(*(record["operations"] for record in records), strict=False)
    return [
        (row[0]["group"], row[0]["seq"])
        for row in rows
        if len({(one["group"], one["seq"]) for one in row}) == 1 and len({one["said"] for one in row}) > 1
    ]
