"""Operations in the background: one thread that runs jobs in the order of their issue, and handles to wait on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from queue import SimpleQueue
from typing import Protocol, TypeAlias

import torch

from .errors import CollectiveError


class Outcome:
    """How a job ended, for whoever waits for it. (A lock instead of a Future: half the time of a hand-over.)

    done: it has ended, well or with ``error``. over: its callbacks have returned, too.
    """

    def __init__(self) -> None:
        self.done = self.over = False
        self.error: BaseException | None = None
        self._callbacks: list[Callable[[], object]] = []
        self._ending, self._open = threading.Lock(), threading.Lock()
        self._open.acquire()

    def end(self, error: BaseException | None) -> None:
        """The first end counts: whoever watches may give a job up that never ends by itself."""
        with self._ending:
            if self.done:
                return
            self.error, self.done = error, True
        self._open.release()
        for callback in self._callbacks:
            callback()
        self._callbacks.clear()
        self.over = True

    def then(self, callback: Callable[[], object]) -> None:
        """Have it called when the job has ended, by the thread that ends it; at once, if it has."""
        with self._ending:
            if not self.done:
                self._callbacks.append(callback)
                return
        callback()

    def wait(self, seconds: float) -> bool:
        """Whether the job was over within ``seconds`` (-1: wait for ever); raises what it raised."""
        if not self.done:
            if not self._open.acquire(timeout=seconds):
                return False
            self._open.release()  # for the next one who waits
        if self.error is not None:
            raise self.error
        return True


Jobs: TypeAlias = SimpleQueue[tuple[Callable[[], object], Outcome] | None]


class Worker:
    """A daemon thread that runs one job after another; it ends with its last reference.

    Callbacks of a job run in the thread before its next job, so what they start in turn comes next on every rank alike.
    """

    def __init__(self, name: str) -> None:
        self._jobs: Jobs = SimpleQueue()
        self._last = Outcome()
        self._last.end(None)
        self._thread = threading.Thread(target=_work, args=(self._jobs,), name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Callable[[], object]) -> Outcome:
        self._last = outcome = Outcome()
        self._jobs.put((job, outcome))
        return outcome

    @property
    def idle(self) -> bool:
        return self._last.over

    @property
    def here(self) -> bool:
        """Whether this is its thread: a callback asks."""
        return threading.current_thread() is self._thread

    def catch_up(self, outcome: Outcome) -> None:
        """In its own thread: run what is queued, up to the job of ``outcome``, which would wait for ever otherwise."""
        while not outcome.done and (item := self._jobs.get()) is not None:
            perform(*item)

    def stop(self, seconds: float) -> bool:
        """End the thread after the jobs that it has; whether that took no longer than ``seconds``."""
        self._jobs.put(None)
        return self.join(seconds)

    def join(self, seconds: float) -> bool:
        """Whether the thread, told to stop, has ended within ``seconds``."""
        if not self.here:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def __del__(self) -> None:
        self._jobs.put(None)


def _work(jobs: Jobs) -> None:
    while (item := jobs.get()) is not None:
        job, outcome = item
        del item
        perform(job, outcome)
        del job, outcome  # or the last operation's tensors would live until the next one


def perform(job: Callable[[], object], outcome: Outcome) -> None:
    """Run a job, and its callbacks."""
    error: BaseException | None = None
    try:
        job()
    except BaseException as raised:  # the waiter gets it, whatever it is
        error = raised
    outcome.end(error)
    del job, error  # an error keeps this frame


class Supervisor(Protocol):
    """Who waits for outcomes and looks after the other ranks meanwhile: a communicator."""

    def watch(self, outcome: Outcome, seconds: float | None) -> None: ...

    def follow(self, outcome: Outcome, callback: Callable[[], object]) -> None: ...


class Work:
    """Handle of an operation that may still run, as ``async_op=True`` returns it.

    Args:
        supervisor: waits for the outcome, and raises what went wrong.
    """

    def __init__(self, outcome: Outcome, supervisor: Supervisor) -> None:
        self._outcome, self._supervisor = outcome, supervisor

    def wait(self, timeout: timedelta | float | None = None) -> bool:
        """Block until the operation is over.

        Args:
            timeout: seconds (or a timedelta) to wait here; None waits as long as the operation's own timeout.

        Raises:
            CollectiveError: what went wrong with it, or ``timeout`` passed (the operation goes on).
        """
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        try:
            self._supervisor.watch(self._outcome, seconds)
        except TimeoutError:
            raise CollectiveError(f"the operation is not over after {seconds} s of waiting; it goes on") from None
        return True

    def then(self, callback: Callable[[], object]) -> None:
        """Have ``callback`` called when the operation is over, well or not; at once, if it is.

        It runs in the thread of the group's operations and before the next of them, so it must not wait for what other
        threads do. Operations that it starts on the group come next, on every rank.
        """
        self._supervisor.follow(self._outcome, callback)

    def is_completed(self) -> bool:
        """Whether it is over, well or not."""
        return self._outcome.done

    def exception(self) -> BaseException | None:
        """What went wrong, if it is over and something did."""
        return self._outcome.error


class StreamWork:
    """Handle of an operation that was issued on another CUDA stream, of which ``event`` is the end.

    Args:
        broken: why the group is, if it is: from then on no result of it can be trusted.
    """

    def __init__(
        self, event: torch.cuda.Event, stream: torch.cuda.Stream, broken: Callable[[], CollectiveError | None]
    ) -> None:
        self._event, self.stream, self._broken = event, stream, broken

    def wait(self, timeout: timedelta | float | None = None) -> bool:
        """Make the current stream wait for the operation.

        Args:
            timeout: seconds (or a timedelta) for which the host waits, too; None: it does not.

        Raises:
            CollectiveError: the group is broken, or ``timeout`` passed (the operation goes on).
        """
        if timeout is not None:
            self._wait_here(timeout.total_seconds() if isinstance(timeout, timedelta) else timeout)
        if (broken := self._broken()) is not None:
            raise broken
        self._event.wait()
        return True

    def _wait_here(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self.is_completed() and self._broken() is None:
            if time.monotonic() >= until:
                raise CollectiveError(f"the operation is not over after {seconds} s of waiting; it goes on")
            time.sleep(0.001)

    def is_completed(self) -> bool:
        return bool(self._event.query())

    def exception(self) -> BaseException | None:
        """What went wrong with the group."""
        return self._broken()
