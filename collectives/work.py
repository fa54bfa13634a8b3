"""Operations in the background: one thread that runs jobs in the order of their issue, and handles to wait on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from queue import SimpleQueue
from typing import Any

import torch

from .errors import CollectiveError

_Job = tuple[Callable[[], Any], "Future[Any]"]


class Worker:
    """A daemon thread that runs one job after another; it ends with its last reference."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._pending = 0
        self._count = threading.Lock()
        threading.Thread(target=_work, args=(self._jobs,), name=name, daemon=True).start()

    def submit(self, job: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        with self._count:
            self._pending += 1
        future.add_done_callback(self._done)
        self._jobs.put((job, future))
        return future

    def _done(self, _: Future[Any]) -> None:
        with self._count:
            self._pending -= 1

    @property
    def idle(self) -> bool:
        return self._pending == 0

    def __del__(self) -> None:
        self._jobs.put(None)


def _work(jobs: SimpleQueue[_Job | None]) -> None:
    while (item := jobs.get()) is not None:
        job, future = item
        try:
            future.set_result(job())
        except BaseException as error:  # the waiter gets it, whatever it is
            future.set_exception(error)
        del item, job, future  # or the last operation's tensors would live until the next one


class Work:
    """Handle of an operation that may still run, as ``async_op=True`` returns it.

    Args:
        watch: waits for the future for some seconds, as the communicator does, and raises what went wrong.
    """

    def __init__(self, future: Future[Any], watch: Callable[[Future[Any], float | None], None]) -> None:
        self._future, self._watch = future, watch

    def wait(self, timeout: timedelta | float | None = None) -> bool:
        """Block until the operation is over.

        Args:
            timeout: seconds (or a timedelta) to wait here; None waits as long as the operation's own timeout.

        Raises:
            CollectiveError: what went wrong with it, or ``timeout`` passed (the operation goes on).
        """
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        try:
            self._watch(self._future, seconds)
        except TimeoutError:
            raise CollectiveError(f"the operation is not over after {seconds} s of waiting; it goes on") from None
        return True

    def is_completed(self) -> bool:
        """Whether it is over, well or not."""
        return self._future.done()

    def exception(self) -> BaseException | None:
        """What went wrong, if it is over and something did."""
        return self._future.exception() if self._future.done() else None


class StreamWork:
    """Handle of an operation that was issued on another CUDA stream."""

    def __init__(self, event: torch.cuda.Event) -> None:
        self._event = event

    def wait(self, timeout: timedelta | float | None = None) -> bool:
        """Make the current stream wait for the operation; the host does not wait."""
        torch.cuda.current_stream().wait_event(self._event)
        return True

    def is_completed(self) -> bool:
        return bool(self._event.query())

    def exception(self) -> BaseException | None:
        return None
