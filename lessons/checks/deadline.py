"""A bound on the time of a call."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_AGAIN = 0.5  # seconds: code that catches everything may have caught it


class Overdue(BaseException):
    """Time is up. No ``Exception``: code that catches those does not mean this one."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise ``Overdue`` in what takes longer. Where there is no such timer (Windows, other threads), do nothing."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    running = True

    def rings(number: int, frame: FrameType | None) -> None:
        if running:
            raise Overdue

    before = signal.signal(signal.SIGALRM, rings)
    earlier = signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
    try:
        yield
    finally:
        running = False
        signal.setitimer(signal.ITIMER_REAL, *earlier)
        signal.signal(signal.SIGALRM, signal.SIG_DFL if before is None else before)
