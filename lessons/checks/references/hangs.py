"""The functions of lesson 29: flight records of all ranks, and who is missing from what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from collectives.flight.meeting import Meeting, first_open, meetings
from collectives.flight.records import Flights, Flown, Record

from ..reference import Example, Reference

Call: TypeAlias = tuple[str, str, str]  # a group, what was called, and how it stands
Place: TypeAlias = tuple[str, int]  # a group, and the number of an operation there


class Records(list[dict[str, Any]]):
    """The records of all ranks, under a name that a sentence can say."""

    name = ""

    def __repr__(self) -> str:
        return f"<records: {self.name}>"


def _records(
    name: str, groups: Mapping[str, Sequence[int]], calls: Sequence[Sequence[Call]], last: int = 100
) -> Records:
    """last: how many operations a record keeps."""
    found = Records()
    found.name = name
    for rank, own in enumerate(calls):
        counts: dict[str, int] = {}
        operations = []
        for group, said, state in own:
            seq = counts.get(group, 0)
            counts[group] = seq + 1
            operations.append({"group": group, "seq": seq, "op": said.split()[0], "said": said, "state": state})
        members = {group: list(groups[group]) for group in counts}  # a rank knows the groups in which it has called
        found.append({"rank": rank, "groups": members, "operations": operations[-last:]})
    return found


_A, _B, _C = "all_reduce of 8 float32, SUM", "broadcast of 8 float32, from rank 0", "all_reduce of 9 float32, SUM"
_ALL = {"0": (0, 1, 2, 3)}
_TWO = {"0": (0, 1, 2, 3), "tp": (0, 1), "dp": (0, 2)}
_DONE = ("0", _A, "done")
EXAMPLES = (
    _records("all is well", _ALL, [[_DONE, _DONE]] * 4),
    _records("one wrote earlier", _ALL, [[_DONE, ("0", _A, "done" if r else "started")] for r in range(4)]),
    _records("one rank skips a call", _ALL, [[_DONE, ("0", _C, "started")] if r != 2 else [_DONE] for r in range(4)]),
    _records("two ranks left early", _ALL, [[_DONE, ("0", _A, "failed")] if r < 2 else [_DONE] for r in range(4)]),
    _records("one calls another", _ALL, [[_DONE, ("0", _B if r == 1 else _A, "failed")] for r in range(4)]),
    _records("one is in another order", _ALL, [
        [("0", _B, "started"), ("0", _A, "queued")] if r == 3 else [("0", _A, "started"), ("0", _B, "queued")]
        for r in range(4)
    ]),
    _records("each waits for the other", {"0": (0, 1), "x": (0, 1)}, [[("0", _A, "started")], [("x", _A, "started")]]),
    _records("one is held up elsewhere", _TWO, [
        [_DONE, ("tp", _A, "done"), ("dp", _A, "started")],
        [_DONE, ("tp", _A, "done"), ("0", _A, "started")],
        [_DONE],
        [_DONE, ("0", _A, "started")],
    ]),
    _records("a rank runs ahead", _ALL, [
        [_DONE, _DONE, ("0", _A, "started")],
        [_DONE, _DONE, ("0", _A, "started"), ("0", _A, "queued")],
        [_DONE, _DONE, ("0", _A, "started")],
        [_DONE, _DONE],
    ]),
)  # fmt: skip


# What the library says of them.


def flights_of(records: Sequence[Mapping[str, Any]]) -> Flights:
    return Flights({one["rank"]: _record(one, len(records)) for one in records})


def _record(said: Mapping[str, Any], size: int) -> Record:
    rank = said["rank"]
    operations = [
        Flown(rank, one["group"], (one["seq"], 0), one["op"], one["said"], one["state"]) for one in said["operations"]
    ]
    return Record(rank, size, operations, {group: tuple(ranks) for group, ranks in said["groups"].items()})


def _open(records: Sequence[dict[str, Any]]) -> list[Meeting]:
    return first_open(meetings(flights_of(records)))


def waiting(records: Sequence[dict[str, Any]]) -> list[Place | None]:
    """Where each rank stands: the first operation that has not ended well."""
    flights = flights_of(records)
    first = [next((o for o in flights.records[rank].operations if o.open), None) for rank in sorted(flights.records)]
    return [None if one is None else (one.group, one.number[0]) for one in first]


def absent(records: Sequence[dict[str, Any]], group: str, seq: int) -> list[int]:
    found = {(one.group, one.number[0]): list(one.absent) for one in meetings(flights_of(records))}
    return found.get((group, seq), list(flights_of(records).groups[group]))


def blame(records: Sequence[dict[str, Any]]) -> list[tuple[int, str, int]]:
    """Who is missing where somebody waits, and is held up nowhere itself."""
    held = {rank for rank, place in enumerate(waiting(records)) if place is not None}
    return sorted((rank, one.group, one.number[0]) for one in _open(records) for rank in one.absent if rank not in held)


def differing(records: Sequence[dict[str, Any]]) -> list[Place]:
    return sorted((one.group, one.number[0]) for one in meetings(flights_of(records)) if len(one.said) > 1)


# What learners take for it.


def _as_lists(value: object) -> object:
    return [_as_lists(one) for one in value] if isinstance(value, (list, tuple)) else value


def _same_rows(value: object, other: object, example: Example) -> bool:
    return _as_lists(value) == _as_lists(other)


def _same_set(value: object, other: object, example: Example) -> bool:
    """In any order."""
    try:
        return sorted(map(_as_lists, value)) == sorted(map(_as_lists, other))  # type: ignore[call-overload]
    except TypeError:
        return False


def _places(keep: Callable[[list[dict[str, Any]]], dict[str, Any] | None]) -> Callable[[Records], list[Place | None]]:
    def found(records: Records) -> list[Place | None]:
        chosen = [keep(record["operations"]) for record in records]
        return [None if one is None else (one["group"], one["seq"]) for one in chosen]

    return found


def _not(states: Sequence[str]) -> Callable[[list[dict[str, Any]]], dict[str, Any] | None]:
    return lambda operations: next((one for one in operations if one["state"] in states), None)


_WAITING = Reference(
    examples=tuple((one,) for one in EXAMPLES),
    answer=waiting,
    kind="list",
    same=_same_rows,
    mistakes={
        "hangs.waiting.last": _places(lambda operations: operations[-1] if operations else None),
        "hangs.waiting.last_open": _places(
            lambda operations: next((one for one in reversed(operations) if one["state"] != "done"), None)
        ),
        "hangs.waiting.last_done": _places(
            lambda operations: next((one for one in reversed(operations) if one["state"] == "done"), None)
        ),
        "hangs.waiting.failed_only": _places(_not(["failed"])),
        "hangs.waiting.no_failed": _places(_not(["started", "queued"])),
        "hangs.waiting.left_out": lambda records: [one for one in waiting(records) if one is not None],
        "hangs.waiting.numbers": lambda records: [None if one is None else one[1] for one in waiting(records)],
        "hangs.waiting.backwards": lambda records: [None if one is None else one[::-1] for one in waiting(records)],
    },
)


def _came(records: Records, group: str, seq: int) -> list[int]:
    missing = absent(records, group, seq)
    return [rank for rank in flights_of(records).groups[group] if rank not in missing]


def _asked() -> tuple[tuple[Records, str, int], ...]:
    return tuple(
        (records, group, seq) for records in EXAMPLES[2:] for group in flights_of(records).groups for seq in (0, 1, 2)
    )


def _by_count(records: Records, group: str, seq: int) -> list[int]:
    """Counting a rank's operations over all groups."""
    return [r for r in flights_of(records).groups[group] if len(records[r]["operations"]) <= seq]


_ABSENT = Reference(
    examples=_asked(),
    answer=absent,
    kind="list",
    same=_same_set,
    mistakes={
        "hangs.absent.came": _came,
        "hangs.absent.everybody": lambda records, group, seq: [
            rank for rank in range(len(records)) if rank not in _came(records, group, seq)
        ],
        "hangs.absent.not_done": lambda records, group, seq: [
            rank
            for rank in flights_of(records).groups[group]
            if not any(
                (one["group"], one["seq"], one["state"]) == (group, seq, "done") for one in records[rank]["operations"]
            )
        ],
        "hangs.absent.open_only": lambda records, group, seq: [
            rank
            for rank in flights_of(records).groups[group]
            if not any(
                (one["group"], one["seq"]) == (group, seq) and one["state"] != "done"
                for one in records[rank]["operations"]
            )
        ],
        "hangs.absent.own_record": lambda records, group, seq: [
            rank for rank in absent(records, group, seq) if group in records[rank]["groups"]
        ],
        "hangs.absent.any_group": lambda records, group, seq: [
            rank
            for rank in flights_of(records).groups[group]
            if not any(one["seq"] == seq for one in records[rank]["operations"])
        ],
        "hangs.absent.counted": _by_count,
        "hangs.absent.any_number": lambda records, group, seq: [
            rank
            for rank in flights_of(records).groups[group]
            if not any(one["group"] == group for one in records[rank]["operations"])
        ],
        "hangs.absent.nobody": lambda records, group, seq: [],
        "hangs.absent.how_many": lambda records, group, seq: [len(absent(records, group, seq))],
    },
)


def _blamed(held: bool = True, first: bool = True) -> Callable[[Records], list[tuple[int, str, int]]]:
    """held: who waits elsewhere is blamed too; first: of each group only the first operation that is open."""

    def found(records: Records) -> list[tuple[int, str, int]]:
        stands = {rank for rank, place in enumerate(waiting(records)) if place is not None}
        places = {place for place in waiting(records) if place is not None}
        if not first:
            places |= {
                (one["group"], one["seq"])
                for record in records
                for one in record["operations"]
                if one["state"] != "done"
            }
        return sorted(
            (rank, *place) for place in places for rank in absent(records, *place) if held or rank not in stands
        )

    return found


_BLAME = Reference(
    examples=tuple((one,) for one in EXAMPLES),
    answer=blame,
    kind="list",
    same=_same_set,
    mistakes={
        "hangs.blame.held": _blamed(),
        "hangs.blame.consequences": _blamed(held=False, first=False),
        "hangs.blame.who_waits": lambda records: [
            (rank, *place) for rank, place in enumerate(waiting(records)) if place is not None
        ],
        "hangs.blame.repeated": lambda records: [
            one for one in blame(records) for place in waiting(records) if place == one[1:]
        ],
        "hangs.blame.ranks_only": lambda records: sorted({rank for rank, _, _ in blame(records)}),
        "hangs.blame.places_only": lambda records: sorted({(group, seq) for _, group, seq in blame(records)}),
        "hangs.blame.first_of_all": lambda records: blame(records)[:1],
        "hangs.blame.backwards": lambda records: [(group, seq, rank) for rank, group, seq in blame(records)],
        "hangs.blame.default_group": lambda records: [one for one in blame(records) if one[1] == "0"],
        "hangs.blame.idle": lambda records: sorted(
            (rank, group, seq)
            for rank, place in enumerate(waiting(records))
            if place is None
            for group, seq in [("0", len(records[rank]["operations"]))]
        ),
    },
)  # fmt: skip


def _by_position(records: Records) -> list[Place]:
    """The n-th lines of all records beside each other, as far as the shortest reaches, named after the first."""
    rows = zip(*(record["operations"] for record in records), strict=False)
    return [(row[0]["group"], row[0]["seq"]) for row in rows if len({one["said"] for one in row}) > 1]


def _by_position_if_alike(records: Records) -> list[Place]:
    """The same, but only where all lines of a row have one group and number."""
    rows = zip(*(record["operations"] for record in records), strict=False)
    named = [({(one["group"], one["seq"]) for one in row}, {one["said"] for one in row}) for row in rows]
    return [place for places, said in named if len(said) > 1 and len(places) == 1 for place in places]


def _callers(records: Records, part: Callable[[dict[str, Any]], object]) -> list[Place]:
    said: dict[Place, set[object]] = {}
    for record in records:
        for one in record["operations"]:
            said.setdefault((one["group"], one["seq"]), set()).add(part(one))
    return sorted(place for place, ways in said.items() if len(ways) > 1)


_DIFFERING = Reference(
    examples=(
        *((one,) for one in EXAMPLES),
        (_records("other shapes", _ALL, [[_DONE, ("0", _C if r == 2 else _A, "failed")] for r in range(4)]),),
        (_records("two groups", _TWO, [
            [("tp", _A, "done"), ("dp", _B, "done")],
            [("tp", _A, "done"), ("0", _A, "started")],
            [("dp", _B, "done")],
            [("0", _A, "started")],
        ]),),
        (_records("the oldest are overwritten", _TWO, [
            [_DONE, ("0", _B, "done"), ("tp", _A, "done")],
            [_DONE, ("0", _B, "done"), ("tp", _A, "done")],
            [_DONE, ("0", _B, "done")],
            [_DONE, ("0", _B, "done")],
        ], last=2),),
        (_records("two disagree, and their lines stand in other places", _TWO, [
            [_DONE, ("0", _C if r == 3 else _A, "done"), *([("tp", _A, "done")] if r < 2 else [])] for r in range(4)
        ], last=2),),
    ),
    answer=differing,
    kind="list",
    same=_same_set,
    mistakes={
        "hangs.differing.op_only": lambda records: _callers(records, lambda one: one["op"]),
        "hangs.differing.states": lambda records: _callers(records, lambda one: one["state"]),
        "hangs.differing.states_too": lambda records: _callers(records, lambda one: (one["said"], one["state"])),
        "hangs.differing.groups_mixed": lambda records: sorted(
            {
                (group, seq)
                for seq in range(4)
                for group in ["0"]
                if len({one["said"] for record in records for one in record["operations"] if one["seq"] == seq}) > 1
            }
        ),
        "hangs.differing.alike": lambda records: sorted(
            {(one["group"], one["seq"]) for record in records for one in record["operations"]}
            - set(differing(records))
        ),
        "hangs.differing.first_only": lambda records: differing(records)[:1],
        "hangs.differing.numbers": lambda records: [seq for _, seq in differing(records)],
        "hangs.differing.position": _by_position,
        "hangs.differing.position_alike": _by_position_if_alike,
        "hangs.differing.by_place": lambda records: sorted(
            {
                ("0", at)
                for at in range(4)
                if len({r["operations"][at]["said"] for r in records if len(r["operations"]) > at}) > 1
            }
        ),
    },
)  # fmt: skip

HANGS: Mapping[str, Reference] = {
    "waiting": _WAITING,
    "absent": _ABSENT,
    "blame": _BLAME,
    "differing": _DIFFERING,
}
