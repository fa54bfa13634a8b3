"""What comes out of a child: its events, and what it prints. The other end may write anything, and stop anywhere."""

from __future__ import annotations

import os
import pickle
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from .bounds import Bounds

_LARGEST = 16 << 20  # bytes of an event


@dataclass(frozen=True)
class Begun:
    """The first word of a child: the process to ask where it stands."""

    pid: int


@dataclass(frozen=True)
class Ended:
    """Its last word. failure: a traceback of ours, or empty."""

    failure: str = ""


class Events:
    """Bytes that become events. Whatever else a learner's file writes there breaks it (``broken``), and nothing more.

    pid: of the child, once it has begun. end: the failure of its last word; None before.
    """

    def __init__(self, bounds: Bounds) -> None:
        self.pid = 0
        self.end: str | None = None
        self.broken = False
        self._left = bounds.events
        self._bytes = bytearray()

    def add(self, more: bytes) -> None:
        self._bytes += more

    def taken(self) -> Iterator[object]:
        """The events that have come as a whole; ``Connection.send_bytes`` has put a length before each."""
        while len(self._bytes) >= 4 and self.end is None and not self.broken:
            (length,) = struct.unpack("!i", self._bytes[:4])
            if not 0 <= length <= _LARGEST or self._left == 0:
                self.broken = True
                return
            if len(self._bytes) < 4 + length:
                return
            try:
                event = pickle.loads(self._bytes[4 : 4 + length])
            except Exception:
                self.broken = True
                return
            del self._bytes[: 4 + length]
            if isinstance(event, Begun):
                self.pid = event.pid
            elif isinstance(event, Ended):
                self.end = event.failure
            else:
                self._left -= 1
                yield event


@dataclass
class Printed:
    """What a child has written to stdout and stderr: its beginning, its end, and how many bytes between are dropped."""

    bounds: Bounds
    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    dropped: int = 0

    def add(self, more: bytes) -> None:
        room = self.bounds.head - len(self.head)
        self.head += more[:room]
        self.tail += more[room:]
        over = len(self.tail) - self.bounds.tail
        if over > 0:
            del self.tail[:over]
            self.dropped += over

    @property
    def count(self) -> int:
        """Bytes in all."""
        return len(self.head) + len(self.tail) + self.dropped

    def parts(self) -> tuple[str, str]:
        """The beginning and the end as text; the end is empty if nothing was dropped."""
        if not self.dropped:
            return (self.head + self.tail).decode(errors="replace"), ""
        return self.head.decode(errors="replace"), self.tail.decode(errors="replace")


def pump(end: Connection, add: Callable[[bytes], None], most: int = 1 << 18) -> bool:
    """Take what is there, up to ``most`` bytes, of an end that does not block; False if nothing will come any more."""
    while most > 0:
        try:
            more = os.read(end.fileno(), min(most, 1 << 16))
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not more:
            return False
        add(more)
        most -= len(more)
    return True
