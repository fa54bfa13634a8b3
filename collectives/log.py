"""What ranks did with bare send and receive, as ``recorder.py`` writes it down. Needs no torch.

A directory holds ``rank0.jsonl``, ``rank1.jsonl``, …; each line is one change of one operation:

========  ============================================================================================
op        ``send``, ``recv``, a collective's name, or ``end`` for the rank's own end
peer      the other rank; null for collectives, and for a receive from anybody until one has come
state     ``posted`` → ``waiting`` (in wait()) → ``done`` or ``failed``; ``refused`` when it was never posted;
          ``unwaited`` when the rank ended without having called wait().
          Of an end: ``returned``, ``raised``, ``died``, ``stopped`` (by the parent, because of others or of time)
also      ``rank``, ``seq`` (one number an operation), ``bytes``, ``tag``, ``group``, ``call`` (``isend``),
          ``blocking``, ``where`` (``ring.py:12``), ``time`` (seconds since 1970) and ``error``
========  ============================================================================================
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


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

    @property
    def is_message(self) -> bool:
        return self.op in ("send", "recv") and self.state != "refused"

    def __str__(self) -> str:
        """``receive from rank 1 (ring.py:12)``."""
        peer = "any rank" if self.peer is None else f"rank {self.peer}"
        what = {"send": f"send to {peer}", "recv": f"receive from {peer}"}.get(self.op, self.op)
        tag = f" with tag {self.tag}" if self.tag else ""
        return what + tag + (f" ({self.where})" if self.where else "")


@dataclass
class Log:
    """operations[rank]: in the order of posting. ends[rank]: how the rank ended, where that is known."""

    operations: dict[int, list[Operation]] = field(default_factory=dict)
    ends: dict[int, Operation] = field(default_factory=dict)

    def messages(self) -> Iterator[Operation]:
        for operations in self.operations.values():
            yield from (operation for operation in operations if operation.is_message)


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
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                fields: dict[str, Any] = json.loads(line)
            except json.JSONDecodeError:
                continue
            known = operations.get(fields["seq"])
            if known is None:
                operations[fields["seq"]] = Operation(**fields)
            else:
                known.state, known.peer, known.error = fields["state"], fields["peer"], fields["error"]
        rank = int(path.stem.removeprefix("rank"))
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
        self._rank, self._count, self._lock = rank, 0, threading.Lock()
        self._ended = False
        self.works: dict[int, tuple[Operation, object]] = {}

    def entry(self, op: str, **fields: Any) -> Operation:
        """A new operation with the next number; ``fields`` as in :class:`Operation`. Nothing is written yet."""
        with self._lock:
            self._count += 1
            return Operation(self._rank, self._count, op, "", **fields)

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


def as_line(operation: Operation) -> str:
    return json.dumps(asdict(operation), ensure_ascii=False) + "\n"
