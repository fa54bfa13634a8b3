"""What a child may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bounds:
    """seconds: in all; quiet: without an event.

    memory: bytes that all processes of the child hold, and threads: that they have (both are watched on Linux only).
    data: bytes of one process, and file: bytes of a file; the system refuses more. scratch: bytes of all temporary
    files together. printed: bytes of output; head, tail: those that are kept, from its beginning and its end. events:
    how many.
    """

    seconds: float = 180.0
    quiet: float = 30.0
    memory: int = 3 << 30
    threads: int = 600
    data: int = 6 << 30
    file: int = 256 << 20
    scratch: int = 512 << 20
    printed: int = 64 << 20
    head: int = 16 << 10
    tail: int = 4 << 10
    events: int = 20_000
