"""The flight records of all ranks, as ``flight.py`` writes them, read back.

``rank0.json``, ``rank1.json``, … hold an object each: ``flight`` (1, the version), ``rank``, ``size``, ``host``,
``process``, ``why`` it was written (``failure``, ``signal``, ``asked`` by another rank, ``call`` of ``write()``,
``left``, ``raised``), the ``error`` that was raised, ``began``, ``written`` and ``left`` (when the rank left the group;
seconds since 1970), ``dropped`` (how many operations are older than the record), ``groups`` (name → global ranks), and
``operations``, oldest first:

=========  ============================================================================================
group, seq whose it is, and its number there, the same on all ranks; of a bare message among those to or from a rank
op, said   what it is, and what all ranks must agree on, in words (``all_reduce of 3×4 float32, SUM``)
peer       of a bare message (``send``, ``recv``) the other end, a global rank; null of a collective
shape      of the tensor; null where ranks may differ on it. Also ``dtype``, ``bytes`` (of the whole buffer)
algorithm  the schedule's name; empty until it is chosen
state      ``queued`` → ``started`` → ``done`` or ``failed``; one of which nothing was sent is left out
queued …   also ``started``, ``ended``: seconds since 1970, 0 if not yet
waits      under way or failed: of each thread its ``step``, ``verb`` and ``peer`` (a global rank)
error      what went wrong; ``cause``: ``timeout``, ``closed`` (the connection to the peer), ``others``, ``error``
=========  ============================================================================================
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from ..sentence import Sentence

Number: TypeAlias = tuple[int, int]  # an operation's in its group; the second counts what was issued as one
UNDER_WAY = ("queued", "started")
# what reading a file that is no record, or half of one, may raise
DAMAGED = (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, MemoryError)


@dataclass(frozen=True, slots=True)
class Stand:
    """Where an operation stands: at a step, to ``send``, ``receive``, … from or to a peer, a global rank."""

    step: int | None
    verb: str
    peer: int


@dataclass(slots=True)
class Flown:
    """One operation of one rank. Fields as in the file, and ``where``: the line that called it, if known.

    A state of PyTorch's records alone is ``over``: ended, well or not.

    number: ``seq``, and a count of the operations that share it. peer: of a send or receive.
    """

    rank: int
    group: str
    number: Number
    op: str
    said: str
    state: str
    shape: tuple[int, ...] | None = None
    dtype: str = ""
    algorithm: str = ""
    queued: float = 0.0
    started: float = 0.0
    ended: float = 0.0
    error: str = ""
    cause: str = ""
    stands: tuple[Stand, ...] = ()
    peer: int | None = None
    where: str = ""

    @property
    def open(self) -> bool:
        """Whether it has not ended well."""
        return self.state in (*UNDER_WAY, "failed")

    @property
    def is_message(self) -> bool:
        return self.op in ("send", "recv")

    @property
    def at(self) -> str:
        """`` at train.py:12``, a sentence, or nothing where that is unknown."""
        return Sentence("flight.at", " at {where}", where=self.where) if self.where else ""


@dataclass(slots=True)
class Record:
    """What one rank has written. ``operations`` are in the order of their issue; times are 0 where unknown."""

    rank: int
    size: int
    operations: list[Flown]
    groups: dict[str, tuple[int, ...]]
    why: str = ""
    error: str = ""
    written: float = 0.0
    left: float = 0.0
    dropped: int = 0

    def of(self, group: str) -> list[Flown]:
        """The collectives that it called in a group."""
        return [o for o in self.operations if o.group == group and not o.is_message]


@dataclass(frozen=True)
class Flights:
    """All ranks' records, by rank. unreadable: why a file was left out, in words."""

    records: Mapping[int, Record]
    unreadable: Sequence[Sentence] = ()

    @functools.cached_property
    def size(self) -> int:
        """How many ranks there were, as far as the records tell."""
        return max((max(record.size, record.rank + 1) for record in self.records.values()), default=0)

    @functools.cached_property
    def groups(self) -> dict[str, tuple[int, ...]]:
        """The members of each group, as all records together tell."""
        found: dict[str, set[int]] = {}
        for record in self.records.values():
            for name, members in record.groups.items():
                found.setdefault(name, set()).update(members)
        return {name: tuple(sorted(members)) for name, members in found.items()}

    def called(self, operation: Flown) -> Sentence:
        """``all_reduce of 3×4 float32, SUM (number 5 of group 1)``; the group only where there are several."""
        said, (seq, _), at = operation.said, operation.number, operation.at
        if operation.is_message or len(self.groups) < 2:
            return Sentence("flight.operation", "{said} (number {seq}){at}", said=said, seq=seq, at=at)
        return Sentence(
            "flight.operation_of_group",
            "{said} (number {seq} of group {group}){at}",
            said=said,
            seq=seq,
            group=operation.group,
            at=at,
        )


def read_flights(paths: Iterable[Path]) -> Flights:
    """Read the files of one run; one that is damaged is left out, and said so. O(operations)."""
    records: dict[int, Record] = {}
    damaged = []
    for path in paths:
        try:
            record = _record(json.loads(path.read_text(encoding="utf-8")))
        except DAMAGED as error:
            damaged.append(unreadable(path, error))
        else:
            records[record.rank] = record
    size = max(records.values(), key=lambda record: record.written).size if records else 0
    # ranks that the newest does not have are of an earlier, larger run
    return Flights({rank: record for rank, record in records.items() if rank < size}, damaged)


def unreadable(path: Path, error: BaseException) -> Sentence:
    return Sentence(
        "flight.unreadable",
        "{path} is no record that can be read ({error}): is it cut off?",
        path=str(path),
        error=f"{type(error).__name__}: {error}",
    )


def is_flight(path: Path) -> bool:
    """Whether it is a file of ``flight.py``, whole or not."""
    with path.open("rb") as file:
        return file.read(16).startswith(b'{"flight":')


def _record(said: dict[str, Any]) -> Record:
    if said["flight"] != 1:
        raise ValueError(f"version {said['flight']}, of a newer Ringlab")
    return Record(
        rank=int(said["rank"]),
        size=int(said["size"]),
        operations=[_flown(int(said["rank"]), one) for one in said["operations"]],
        groups={str(name): tuple(int(rank) for rank in ranks) for name, ranks in said["groups"].items()},
        why=str(said["why"]),
        error=str(said["error"]),
        written=float(said["written"]),
        left=float(said["left"]),
        dropped=int(said["dropped"]),
    )


def _flown(rank: int, said: dict[str, Any]) -> Flown:
    peer = None if said["peer"] is None else int(said["peer"])
    stands = [Stand(int(w["step"]) if peer is None else None, str(w["verb"]), int(w["peer"])) for w in said["waits"]]
    return Flown(
        rank=rank,
        group=str(said["group"]),
        number=(int(said["seq"]), 0),
        op=str(said["op"]),
        said=str(said["said"]),
        state=str(said["state"]),
        shape=None if said["shape"] is None else tuple(int(n) for n in said["shape"]),
        dtype=str(said["dtype"]),
        algorithm=str(said["algorithm"]),
        queued=float(said["queued"]),
        started=float(said["started"]),
        ended=float(said["ended"]),
        error=str(said["error"]),
        cause=str(said["cause"]),
        stands=tuple(stands),
        peer=peer,
    )
