"""A function in a process of its own, with bounds on time, memory, threads and output, that leaves nothing behind.

Two processes stand between the runner and the learner's code: a guard, which does nothing but wait, and the child
itself, in a session of its own. So code that ends its group, or its parent, never ends the runner. On Linux whatever
the child starts comes back to the guard when its parent dies, also what has left the session, and is ended with it.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import re
import selectors
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext
from pathlib import Path
from typing import Any, Literal, cast

from .bounds import Bounds
from .family import Family
from .guard import LINUX, Lines, Orders, adopt_orphans, guard
from .pipes import Events, Printed, pump
from .refusal import Refusal
from .said import Said

_LOOK = 0.1  # seconds between two looks at what it takes
_ASKED = 4  # processes that are asked where they stand, at most

How = Literal["finished", "time", "memory", "threads", "files", "prints", "died", "silent", "failed"]
Place = tuple[str, int, str]  # file, line, function


@dataclass(frozen=True)
class Ending:
    """How a child ended.

    how: ``finished``; over a bound (``time``, ``memory``, ``threads``, ``files``, ``prints``); ``died`` by a signal or
    an exit; ``silent``, with neither a last word nor an error; ``failed`` in our own code. during: the last ``Said`` of
    its events. cause: the signal, the exit code, or the traceback of ``failed``. where: the place in the learner's
    files at which it stood when it crashed, or was over a bound.
    """

    how: How
    seconds: float
    during: Said | None
    printed: Printed
    bounds: Bounds
    cause: str = ""
    where: Place | None = None

    def said(self) -> Said | None:
        """What there is to say about it; None if all is well."""
        if self.how == "finished":
            return None
        fields: dict[str, object] = {"cause": self.cause, "seconds": round(self.seconds)}
        fields |= {"memory": f"{self.bounds.memory / (1 << 30):.3g} GiB", "threads": self.bounds.threads}
        fields |= {name: f"{getattr(self.bounds, name) / (1 << 20):.3g} MiB" for name in ("scratch", "printed")}
        fields["during"] = Said("child.during", {"what": self.during}) if self.during else Said("child.at_once")
        at = "top" if self.where and self.where[2] == "<module>" else "at"
        place = dict(zip(("file", "line", "function"), self.where or (), strict=False))
        if self.how == "time" and self.where:
            return Said(f"child.time_{at}", {**fields, **place})
        if self.how == "died":
            what = Said(f"child.died_{'exit' if self.cause.isdecimal() else 'signal'}", fields)
        else:
            what = Said(f"child.{self.how}", fields)
        return Said(f"child.stood_{at}", {"what": what, **place}) if self.where else what


class Child:
    """``function(*args)`` in a child. It yields events, and so does ``events()``; ``ending`` tells the rest.

    On Linux the child is forked: it has what is imported here. Elsewhere it is spawned, and function and arguments are
    pickled. Stop early with ``close()``; leave nothing behind with ``with``.

    Args:
        folder: where it works, and the folder that ``lessons.finished`` reads.

    Raises:
        Refusal: this system has no processes as we need them (Windows).
    """

    def __init__(
        self, function: Callable[..., Iterator[object]], *args: Any, folder: Path, bounds: Bounds | None = None
    ) -> None:
        if sys.platform == "win32":
            raise Refusal("child.system")
        self.bounds, self.folder = bounds or Bounds(), folder
        self.ending: Ending | None = None
        self._printed = Printed(self.bounds)
        self._family = Family()
        self._suspects: Sequence[int] = ()  # the processes that take most of what there is too much of
        adopt_orphans()  # for what the guard has, if somebody ends the guard
        # the fork context has the same methods
        context = cast(SpawnContext, multiprocessing.get_context("fork" if LINUX else "spawn"))
        pipes = [context.Pipe(duplex=False) for _ in range(4)]
        self._ends = [ours for ours, _ in pipes]
        lines = Lines(*(theirs for _, theirs in pipes))
        self._scratch = Path(tempfile.mkdtemp(prefix="lesson-"))
        orders = Orders(function, args, folder, self._scratch, self.bounds, os.getpid())
        self._began = self._heard = time.monotonic()
        self._guard = context.Process(target=guard, args=(orders, lines, self._ends if LINUX else []))
        try:
            self._guard.start()
            self._family.head = self._guard.pid or 0
        except BaseException:
            self.close()
            raise
        finally:
            lines.close()

    def events(self) -> Iterator[object]:
        """Every event as it comes; afterwards ``ending`` is there, and no process is left."""
        events, printed, status, stack = self._ends
        for end in self._ends:
            os.set_blocking(end.fileno(), False)
        stream = Events(self.bounds)
        how: How | None = None
        during: Said | None = None
        where: Place | None = None
        code = 0
        try:
            with selectors.DefaultSelector() as selector:
                for end in (events, printed, status):
                    selector.register(end, selectors.EVENT_READ)
                look = self._began
                while how is None:
                    ready = [key.fileobj for key, _ in selector.select(_LOOK)]
                    for end, add in ((printed, self._printed.add), (events, stream.add)):
                        if end in ready and not pump(end, add):
                            selector.unregister(end)
                    if status in ready:
                        how, code = "died", _code(status)
                        pump(events, stream.add)  # what it said just before
                    for event in stream.taken():
                        during = event if isinstance(event, Said) else during
                        yield event
                        self._heard = time.monotonic()
                    if stream.end is not None:
                        how = "failed" if stream.end else "finished"
                    elif stream.broken or (how and not code):
                        how = "silent"
                    elif how is None and (now := time.monotonic()) >= look:
                        look, how = now + _LOOK, self._exceeded(now)
            if how == "died":
                where = _place(_heard(stack), self.folder)
            elif how not in ("finished", "silent", "failed") and stream.pid:
                where = _where(
                    self._suspects or [*dict.fromkeys((stream.pid, *self._family.members()))], stack, self.folder
                )
            seconds = time.monotonic() - self._began
        finally:
            self.close()
        cause = stream.end or _cause(code)
        self.ending = Ending(how, seconds, during, self._printed, self.bounds, cause, where)

    def close(self) -> None:
        """No process is left afterwards, and no temporary file. More than once is fine."""
        with _uninterrupted():
            self._family.end()
            if self._guard.pid is not None:
                self._guard.kill()
                self._guard.join()
            self._family.end()
            printed = self._ends[1]
            if not printed.closed:
                os.set_blocking(printed.fileno(), False)
                pump(printed, self._printed.add)
            shutil.rmtree(self._scratch, ignore_errors=True)
            for end in self._ends:
                end.close()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _exceeded(self, now: float) -> How | None:
        if now - self._began > self.bounds.seconds or now - self._heard > self.bounds.quiet:
            return "time"
        if self._printed.count > self.bounds.printed:
            return "prints"
        if _bytes_in(self._scratch) > self.bounds.scratch:
            return "files"
        usage = self._family.usage(self.bounds.memory)
        if sum(usage.threads.values()) > self.bounds.threads:
            self._suspects = _greediest(usage.threads)
            return "threads"
        if sum(usage.memory.values()) > self.bounds.memory:
            self._suspects = _greediest(usage.memory)
            return "memory"
        return None


def _code(status: Connection) -> int:
    """How the child ended, as the guard says, or how the guard did: nothing else ends it."""
    said = bytearray()
    pump(status, said.extend)
    return int(said[4:]) if len(said) > 4 else -signal.SIGKILL


def _cause(code: int) -> str:
    if code >= 0:
        return str(code)
    return signal.Signals(-code).name if -code in signal.valid_signals() else f"signal {-code}"


def _greediest(taken: Mapping[int, int]) -> list[int]:
    return sorted(taken, key=lambda pid: -taken[pid])


def _bytes_in(folder: Path) -> int:
    """What the files in a folder take on the disk."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # it has gone meanwhile
                total += os.lstat(os.path.join(place, name)).st_blocks * 512
    return total


def _where(pids: Sequence[int], stack: Connection, folder: Path) -> Place | None:
    """Ask one process after the other where it stands; the first place in a file of the learner's."""
    for pid in pids[:_ASKED]:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGUSR1)
        place = _place(_heard(stack), folder)
        if place is not None:
            return place
    return None


def _heard(stack: Connection) -> str:
    """What has been written there, and is about to be."""
    said = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(stack, selectors.EVENT_READ)
        while selector.select(0.2) and pump(stack, said.extend):
            pass
    return said.decode(errors="replace")


def _place(stack: str, folder: Path) -> Place | None:
    """The innermost line in a file of the learner's."""
    for file, line, function in re.findall(r'File "(.+?)", line (\d+) in (.+)', stack):
        if Path(file).parent == folder:
            return Path(file).name, int(line), function
    return None


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until the end of it: what is half cleared up would stay."""
    came: list[int] = []
    try:
        before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    except ValueError:  # not the main thread, which alone is interrupted
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)


def warm() -> None:
    """Import torch here, where children are forked: many of them then begin at once."""
    if LINUX:
        import torch.distributed  # noqa: F401
