"""A thread that writes the flight record when SIGUSR1 comes or another rank asks, whatever this rank is busy with."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable
from typing import Any

_KEY = "collectives/flight"  # in the store, with a number: a rank has asked for all records once more
_LOOK = 0.5  # seconds between two looks at it
_STOP, _ASK = 0, 255  # bytes for the thread, beside the numbers of signals
_SIGNAL: int | None = getattr(signal, "SIGUSR1", None)  # Windows has none


class Watcher:
    """Waits beside the program.

    A signal handler in Python runs when the interpreter comes back from C++, which a rank that waits for its peers may
    never do. The system's own handler writes the signal's number into the wakeup descriptor at once; the other end of
    that socket is read here.

    Args:
        write: writes the record; told why, ``signal`` or ``asked``.
        store: the ranks'. One signal to any of them is enough: it asks the others.
    """

    def __init__(self, write: Callable[[str], None], store: Any) -> None:
        self._write, self._store, self._seen = write, store, 0
        self._inbox, self._outbox = socket.socketpair()
        self._inbox.settimeout(_LOOK)
        self._outbox.setblocking(False)
        self._former = _catch(self._outbox)
        self._thread = threading.Thread(target=self._watch, name="collectives-flight", daemon=True)
        self._thread.start()

    def ask(self) -> None:
        """Have every other rank write, too; at once, in the thread."""
        self._tell(_ASK)

    def stop(self) -> None:
        """End the thread when it has done what it was told, and give the wakeup descriptor back."""
        self._tell(_STOP)
        if threading.current_thread() is not self._thread:
            self._thread.join(1.0)
        if self._former is None:
            return
        ours = self._outbox.fileno()
        if _is_main() and (taken := _wake(self._former)) != ours:
            _wake(taken)  # somebody else's by now
        elif _is_main():
            return
        self._outbox.detach()  # whoever has the number may still write to it: it stays open

    def _tell(self, byte: int) -> None:
        with contextlib.suppress(OSError):  # full: it has enough to do
            self._outbox.send(bytes([byte]))

    def _watch(self) -> None:
        with contextlib.suppress(AttributeError, RuntimeError):
            self._store = self._store.clone()  # a connection of our own: the other one may be held by a long wait
        self._asked()  # of an earlier record
        while True:
            said = self._hear()
            signalled = _SIGNAL is not None and _SIGNAL in said
            if signalled:
                self._write("signal")
            asked = self._asked()
            if signalled or _ASK in said:
                self._ask_others()
            elif asked:
                self._write("asked")
            if _STOP in said:
                return

    def _hear(self) -> bytes:
        try:
            said = self._inbox.recv(4096)
        except TimeoutError:
            return b""
        signals = bytes(byte for byte in said if byte not in (_STOP, _ASK))
        if signals and self._former is not None and self._former >= 0:
            with contextlib.suppress(OSError):  # it was somebody else's before us, and he still waits for it
                os.write(self._former, signals)
        return said

    def _asked(self) -> bool:
        """Whether another rank has asked since the last look."""
        before = self._seen
        try:
            while self._store is not None and self._store.check([f"{_KEY}/{self._seen}"]):
                self._seen += 1
        except RuntimeError:  # the store has gone with its host: signals are still heard
            self._store = None
        return self._seen > before

    def _ask_others(self) -> None:
        if self._store is not None:
            with contextlib.suppress(RuntimeError):
                self._store.set(f"{_KEY}/{self._seen}", "")
                self._seen += 1


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def _catch(end: socket.socket) -> int | None:
    """Have SIGUSR1 reported to ``end``; the descriptor that was told of signals before (-1: none), None if not ours."""
    if _SIGNAL is None or not _is_main():
        return None
    if signal.getsignal(_SIGNAL) is signal.SIG_DFL:  # it stays: a signal that comes late must not end the process
        signal.signal(_SIGNAL, lambda *_: None)
        signal.siginterrupt(_SIGNAL, False)  # what waits in the system goes on waiting
    return _wake(end.fileno())


def _wake(descriptor: int) -> int:
    """Have signals reported there, or nowhere if it has been closed; where they were before."""
    try:
        return signal.set_wakeup_fd(descriptor, warn_on_full_buffer=False)
    except (ValueError, OSError):
        return signal.set_wakeup_fd(-1)
