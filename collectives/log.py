"""What ranks did with bare send and receive, as ``recorder.py`` writes it down. Needs no torch.

A directory holds ``rank0.jsonl``, ``rank1.jsonl``, …; each line is one change of one operation:

========  ============================================================================================
op        ``send``, ``recv``, a collective's name, ``new_group``, or ``end`` for the rank's own end
peer      the other rank; null for collectives, and for a receive from anybody until one has come
state     ``posted`` → ``waiting`` (in wait()) → ``done`` or ``failed``; ``refused`` when it was never posted;
          ``unwaited`` when the rank ended without having called wait().
          Of an end: ``returned``, ``raised``, ``died``, ``stopped`` (by the parent, because of others or of time)
also      ``rank``, ``seq`` (one number an operation), ``bytes``, ``tag``, ``group``, ``call`` (``isend``),
          ``blocking``, ``where`` (``ring.py:12``), ``time`` (seconds since 1970), ``thread``, ``error`` (a sentence is
          an object of ``id``, ``template`` and ``fields``), ``memory`` (of a message's tensors: first address and
          the one behind the last, of bytes; 0, 0 where unknown), ``members`` (of a collective: the group's ranks)
========  ============================================================================================

``explanation.py`` says what went wrong, ``rendezvous.py`` what would have, had nothing been buffered.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeAlias

from .sentence import Sentence, to_json

VERBS = {"send": "send", "recv": "receive"}  # an operation as people call it


@dataclass(slots=True)
class Operation:
    """One operation of one rank, as it stood at the end; ``time`` is when it was posted. Fields as in the file."""

    rank: int
    seq: int
    op: str
    state: str
    peer: int | None = None
    bytes: int = 0
    tag: int = 0
    group: str = ""
    call: str = ""
    blocking: bool = False
    where: str = ""
    time: float = 0.0
    error: str = ""
    thread: int = 0
    memory: tuple[int, int] = (0, 0)
    members: tuple[int, ...] = ()

    @property
    def is_message(self) -> bool:
        return self.op in ("send", "recv") and self.state != "refused"

    @property
    def is_collective(self) -> bool:
        return self.op not in ("send", "recv", "end") and self.state != "refused"

    @property
    def at(self) -> str:
        """`` (ring.py:12)``, a sentence, or nothing where that is unknown."""
        return Sentence("operation.at", " ({where})", where=self.where) if self.where else ""

    @property
    def tagged(self) -> str:
        """`` with tag 5``, a sentence, or nothing for tag 0."""
        return Sentence("operation.tagged", " with tag {tag}", tag=self.tag) if self.tag else ""

    @property
    def sentence(self) -> Sentence:
        """``receive from rank 1 (ring.py:12)``."""
        tagged, at = self.tagged, self.at
        if self.op == "send":
            return Sentence("operation.send", "send to rank {peer}{tagged}{at}", peer=self.peer, tagged=tagged, at=at)
        if self.op != "recv":
            return Sentence("operation.collective", "{op}{at}", op=self.op, at=at)
        if self.peer is None:
            return Sentence("operation.receive_any", "receive from any rank{tagged}{at}", tagged=tagged, at=at)
        return Sentence(
            "operation.receive", "receive from rank {peer}{tagged}{at}", peer=self.peer, tagged=tagged, at=at
        )

    @property
    def called(self) -> Sentence:
        """``irecv from rank 1 (ring.py:12)``: with the name of the function that was called."""
        call, tagged, at = self.call or self.op, self.tagged, self.at
        if self.op == "send":
            return Sentence(
                "call.send", "{call} to rank {peer}{tagged}{at}", call=call, peer=self.peer, tagged=tagged, at=at
            )
        if self.op != "recv":
            return self.sentence
        if self.peer is None:
            return Sentence("call.receive_any", "{call} from any rank{tagged}{at}", call=call, tagged=tagged, at=at)
        return Sentence(
            "call.receive", "{call} from rank {peer}{tagged}{at}", call=call, peer=self.peer, tagged=tagged, at=at
        )

    def __str__(self) -> str:
        return str(self.sentence)


Pair: TypeAlias = tuple[Operation, Operation, int]  # a send, its receive, and which of its channel they are, from 1


@dataclass
class Log:
    """What all ranks did.

    operations[rank]: in the order of posting. ends[rank]: how the rank ended, where that is known.
    events[rank]: (seq, state) of every line about an operation, in the order of the file.
    """

    operations: dict[int, list[Operation]] = field(default_factory=dict)
    ends: dict[int, Operation] = field(default_factory=dict)
    events: dict[int, list[tuple[int, str]]] = field(default_factory=dict)

    def is_threaded(self, rank: int) -> bool:
        """Whether several threads of a rank sent and received: its operations then have no one order."""
        return len({operation.thread for operation in self.operations.get(rank, ()) if operation.op != "end"}) > 1

    def messages(self) -> Iterator[Operation]:
        for operations in self.operations.values():
            yield from (operation for operation in operations if operation.is_message)

    def pairs(self) -> tuple[list[Pair], list[Operation]]:
        """The k-th send of a pair of ranks meets the k-th receive, per group and tag; and those that meet nobody."""
        channels: dict[tuple[object, ...], tuple[list[Operation], list[Operation]]] = {}
        lonely: list[Operation] = []
        for message in self.messages():
            if message.peer is None:
                lonely.append(message)
                continue
            sends = message.op == "send"
            ends = (message.rank, message.peer) if sends else (message.peer, message.rank)
            channels.setdefault((message.group, message.tag, *ends), ([], []))[0 if sends else 1].append(message)
        pairs = []
        for sent, received in channels.values():
            both = min(len(sent), len(received))
            pairs += [(sent[k], received[k], k + 1) for k in range(both)]
            lonely += sent[both:] + received[both:]
        return pairs, lonely

    def entered(self, rank: int, group: str) -> list[Operation]:
        """The collectives of a group that a rank has called, in order: the k-th meets the others' k-th."""
        return [o for o in self.operations.get(rank, []) if o.is_collective and o.group == group]

    def missing(self, collective: Operation) -> list[int]:
        """The members of its group that have not entered a collective yet."""
        turn = sum(o.seq <= collective.seq for o in self.entered(collective.rank, collective.group))
        members = collective.members or tuple(self.operations)
        return [rank for rank in members if len(self.entered(rank, collective.group)) < turn]

    def misnamed(self) -> tuple[Operation, Operation] | None:
        """Two ranks that make different groups under one name: groups are counted, and one of them has left one out."""
        first: dict[str, Operation] = {}
        for operation in (o for operations in self.operations.values() for o in operations if o.op == "new_group"):
            if first.setdefault(operation.group, operation).members != operation.members:
                return first[operation.group], operation
        return None

    def stuck(self) -> set[int]:
        """The ranks that wait for a message whose other end has not been posted, or for members of a collective.

        Those of groups that are made apart do not meet.
        """
        _, lonely = self.pairs()
        coming = {operation.peer for operation in lonely if operation.op == "send"}
        absent = [o for o in lonely if o.peer is not None or o.rank not in coming]
        absent += [o for operations in self.operations.values() for o in operations if o.is_collective]
        apart = self.misnamed() is not None
        return {o.rank for o in absent if o.state == "waiting" and (o.is_message or apart or self.missing(o))}


def read_log(directory: str | Path) -> Log:
    """Read what the ranks have written so far; a last line that is cut short is left out.

    Raises:
        FileNotFoundError: the directory holds no record.
    """
    paths = sorted(Path(directory).glob("rank*.jsonl"), key=lambda path: int(path.stem.removeprefix("rank")))
    if not paths:
        raise FileNotFoundError(f"no rank*.jsonl in {directory}: is it the directory that was recorded into?")
    log = Log()
    for path in paths:
        operations: dict[int, Operation] = {}
        events: list[tuple[int, str]] = []
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                fields: dict[str, Any] = json.loads(line, object_hook=Sentence.from_json)
            except json.JSONDecodeError:
                continue
            fields |= {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
            change = Operation(**fields)
            known = operations.setdefault(change.seq, change)
            known.state, known.peer, known.error = change.state, change.peer, change.error
            if change.op != "end":
                events.append((change.seq, change.state))
        rank = int(path.stem.removeprefix("rank"))
        log.events[rank] = events
        log.operations[rank] = [operation for operation in operations.values() if operation.op != "end"]
        for operation in operations.values():
            if operation.op == "end":
                log.ends[rank] = operation
    return log


class Journal:
    """One rank's file, to write. A line goes to the system at once, so it outlives the process.

    ``works`` are the operations that have not been waited for, by number: whoever logs keeps them alive there.
    """

    def __init__(self, directory: str | Path, rank: int) -> None:
        path = Path(directory)
        path.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path / f"rank{rank}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        self._rank, self.count, self._lock = rank, 0, threading.Lock()
        self._ended = False
        self.works: dict[int, tuple[Operation, object]] = {}

    def entry(self, op: str, **fields: Any) -> Operation:
        """A new operation with the next number; ``fields`` as in :class:`Operation`. Nothing is written yet."""
        with self._lock:
            self.count += 1
            return Operation(self._rank, self.count, op, "", thread=threading.get_ident(), **fields)

    def write(self, entry: Operation, state: str, error: str = "") -> None:
        entry.state, entry.error, entry.time = state, error, time.time()
        os.write(self._file, as_line(entry).encode())

    def finish(self, state: str, error: str) -> None:
        """The rank has come to its end: note that, once, and what was never waited for."""
        for entry, _ in list(self.works.values()):
            if entry.state == "posted":
                self.write(entry, "unwaited")
        if not self._ended:
            self._ended = True
            self.write(self.entry("end"), state, error)


_FIELDS = tuple(one.name for one in fields(Operation))


def as_line(operation: Operation) -> str:
    entry = {name: getattr(operation, name) for name in _FIELDS}  # as asdict, which copies all that is in it
    return json.dumps({**entry, "error": to_json(operation.error)}, ensure_ascii=False) + "\n"
