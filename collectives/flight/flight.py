"""The flight record: the last operations of this rank, kept in memory, and written down when something goes wrong.

``record()`` begins it, or the environment variable COLLECTIVES_RECORD_DIR does, for a program that cannot be changed.
Every rank writes ``rank0.json``, ``rank1.json``, … into that directory when an operation fails on it, when another rank
has failed, when any of them gets SIGUSR1, and else when it leaves the group. ``records.py`` reads the files,
``explanation.py`` says what they mean.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from multiprocessing.util import Finalize
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_process_group_store

from ..atomic import write_text
from ..errors import CollectiveError, MismatchError
from .entry import Entry
from .records import UNDER_WAY
from .watcher import Watcher

if TYPE_CHECKING:
    from ..call import Description
    from ..communicator import Communicator

DIRECTORY = "COLLECTIVES_RECORD_DIR"  # of the environment
LAST = 1000  # operations that are kept


class Flight:
    """What this rank did last, over all its groups; made by :func:`record`.

    directory: where it is written; None if only :meth:`write` is to do so.
    """

    def __init__(self, group: dist.ProcessGroup, directory: Path | None, last: int) -> None:
        self.directory, self.rank, self.size = directory, dist.get_rank(group), dist.get_world_size(group)
        self._entries: deque[Entry] = deque(maxlen=last)
        self._count, self._began, self._process = 0, time.time(), os.getpid()
        self._raised_before = getattr(sys, "last_value", None)
        self._groups: dict[str, list[int]] = {}
        self._messages: dict[tuple[str, str, int], int] = {}  # how many, by group, ``send`` or ``recv``, and peer
        self._writing = threading.Lock()
        self._noted: dict[str, Any] | None = None
        self._watcher: Watcher | None = None
        if directory is not None:
            self.path(directory).unlink(missing_ok=True)  # of an earlier run
            self._watcher = Watcher(self._note, _get_process_group_store(group))
        # its group's end, or that of the process; atexit would not see that of a process of multiprocessing
        self._ends = weakref.finalize(group, self._leave), Finalize(None, self._leave, exitpriority=0)
        self._ends[0].atexit = False

    # What the communicators tell it.

    def enter(self, communicator: Communicator, said: Description, nbytes: int, peer: int | None = None) -> Entry:
        """A collective that is about to be issued, or a bare message to or from ``peer`` (a rank of the group)."""
        label = communicator.label
        if label not in self._groups:
            self._groups[label] = dist.get_process_group_ranks(communicator.group)
        entry = Entry(label, said, nbytes, peer)
        if peer is not None:
            end = label, said.collective, peer
            entry.seq = self._messages.get(end, 0)
            self._messages[end] = entry.seq + 1
        self._entries.append(entry)
        self._count += 1
        return entry

    def follow(self, entry: Entry, job: Callable[[], None]) -> None:
        """Run an operation, and note when it began and how it ended."""
        entry.state, entry.started = "started", time.time()
        try:
            job()
        except BaseException as error:
            self.fail(entry.group, error, entry)
            raise
        entry.finish()

    def fail(self, label: str, error: BaseException, entry: Entry | None = None) -> None:
        """A group failed, or one ``entry`` of it; what breaks the group ends all that it has under way.

        Has every rank write, once a failure.
        """
        if entry is not None and entry.state not in UNDER_WAY:
            return  # told already, by who noticed it first
        breaks = isinstance(error, CollectiveError) and not isinstance(error, MismatchError)
        for e in list(self._entries) if breaks else ():
            if e.group == label and e.state in UNDER_WAY:
                e.fail(error)
        if entry is not None and not breaks:
            entry.fail(error)
        if isinstance(error, CollectiveError):
            self._note("failure", str(error))
            if self._watcher is not None:
                self._watcher.ask()

    # What comes of it.

    def as_json(self, why: str = "call", error: str = "") -> dict[str, Any]:
        """The record as it is written; why, and all else, as ``records.py`` has it."""
        entries, count = list(self._entries), self._count
        return {
            "flight": 1,
            "rank": self.rank,
            "size": self.size,
            "host": socket.gethostname(),
            "process": self._process,
            "why": why,
            "error": error,
            "began": self._began,
            "written": time.time(),
            "left": 0.0,
            "dropped": max(0, count - len(entries)),
            "groups": dict(self._groups),
            "operations": [entry.as_json(seq, self._groups[entry.group]) for entry, seq in _numbered(entries)],
        }

    def write(self, directory: str | os.PathLike[str] | None = None) -> Path:
        """Write the record into a directory, in place of what this rank wrote there before; the file.

        Raises:
            ValueError: no directory, neither here nor in :func:`record`.
            OSError: it cannot be written to.
        """
        directory = self.directory if directory is None else Path(directory)
        if directory is None:
            raise ValueError(f"directory=None: give one here or to record(), or set {DIRECTORY}")
        return self._put(Path(directory), self.as_json())

    def path(self, directory: Path) -> Path:
        """This rank's file in a directory."""
        return directory / f"rank{self.rank}.json"

    def stop(self) -> None:
        """Write no more by itself."""
        self._ends[0].detach()
        self._ends[1].cancel()
        if self._watcher is not None:
            self._watcher.stop()

    def _put(self, directory: Path, record: dict[str, Any]) -> Path:
        path = self.path(directory)
        with self._writing:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, json.dumps(record) + "\n")
        return path

    def _note(self, why: str, error: str = "") -> None:
        """Write because of something that happened."""
        self._keep(self.as_json(why, error))

    def _keep(self, record: dict[str, Any]) -> None:
        """Write if there is a place; a failure must be told even when it cannot be written down."""
        if self.directory is not None:
            self._noted = record
            try:
                self._put(self.directory, record)
            except OSError as trouble:
                print(f"rank {self.rank}: the flight record cannot be written: {trouble}", file=sys.stderr)

    def _leave(self) -> None:
        """The group is gone, or the process ends: whose record does not say so was killed.

        What was written when something happened stays, for it tells more than that all has come to an end.
        """
        if os.getpid() != self._process:  # a fork of this rank is not this rank
            return
        self.stop()  # first: what another rank has just asked for must not come after the last word
        last = self._noted or self.as_json("left")
        raised = self._raised()
        if raised is not None and last["why"] != "failure":
            last = self.as_json("raised", f"{type(raised).__name__}: {raised}"[:2000])
        self._keep({**last, "left": time.time()})

    def _raised(self) -> Exception | None:
        """What the group is destroyed in the ``finally`` of, or the process ends with. (A Ctrl-C tells nothing.)"""
        for error in (sys.exc_info()[1], getattr(sys, "last_value", None)):
            if isinstance(error, Exception) and error is not self._raised_before:
                return error
        return None


# by default group: a process has one record, which ends with that group
_flights: weakref.WeakKeyDictionary[dist.ProcessGroup, Flight | None] = weakref.WeakKeyDictionary()


def record(directory: str | os.PathLike[str] | None = None, last: int = LAST) -> Flight:
    """Keep the last operations of this rank, of every group; a second call begins anew.

    Costs one or two microseconds an operation. Call it on every rank, after ``init_process_group``, in the main thread:
    elsewhere SIGUSR1 cannot be caught. A handler of your own for SIGUSR1 stays; the record is written all the same.

    Args:
        directory: where every rank writes its record when something goes wrong: a folder that ``python -m collectives
            explain`` can read, made if need be. Default: COLLECTIVES_RECORD_DIR; without one, only
            :meth:`Flight.write` writes. After a restart by torchrun it is ``restart1`` in there, and so on.
        last: how many operations to keep.

    Raises:
        ValueError: no default group yet, a number below 1, or a directory that cannot be written to.
    """
    world = dist.group.WORLD if dist.is_initialized() else None
    if world is None:
        raise ValueError("record: torch.distributed has no default group yet; call init_process_group first")
    if not isinstance(last, int) or last < 1:
        raise ValueError(f"last={last!r}: keep at least 1 operation")
    place = _place(directory or os.environ.get(DIRECTORY))
    former = _flights.get(world)
    if former is not None:
        former.stop()
    found = _flights[world] = Flight(world, place, last)
    return found


def current() -> Flight | None:
    """The record of this process, if there is one; the environment may ask for it."""
    world = dist.group.WORLD
    if world is None:
        return None
    try:
        return _flights[world]
    except KeyError:  # the first operation
        _flights[world] = None
        return record() if os.environ.get(DIRECTORY) else None


def _place(directory: str | os.PathLike[str] | None) -> Path | None:
    if not directory:
        return None
    restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    place = Path(directory).absolute() / (f"restart{restart}" if restart != "0" else "")
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"directory={str(directory)!r}: it cannot be made ({error}); choose another") from None
    if not os.access(place, os.W_OK):
        raise ValueError(f"directory={str(directory)!r}: it cannot be written to; choose another")
    return place


def _numbered(entries: list[Entry]) -> Iterator[tuple[Entry, int]]:
    """What was issued, with its number; a collective that has none yet comes after the rest of its group."""
    following: dict[str, int] = {}
    for entry in entries:
        if entry.seq is not None and entry.peer is None:
            following[entry.group] = max(following.get(entry.group, 0), entry.seq + 1)
    for entry in entries:
        if entry.state == "refused":
            continue
        seq = entry.seq
        if seq is None:
            seq = following.get(entry.group, 0)
            following[entry.group] = seq + 1
        yield entry, seq
