"""Operations in the background: one thread that runs jobs in the order of their issue, and handles to wait on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from queue import SimpleQueue

import torch

from .errors import CollectiveError


class Outcome:
    """How a job ended, for whoever waits for it. (A lock instead of a Future: half the time of a hand-over.)"""

    def __init__(self) -> None:
        self.done = False
        self.error: BaseException | None = None
        self._open = threading.Lock()
        self._open.acquire()

    def end(self, error: BaseException | None) -> None:
        self.error, self.done = error, True
        self._open.release()

    def wait(self, seconds: float) -> bool:
        """Whether the job was over within ``seconds`` (-1: wait for ever); raises what it raised."""
        if not self.done:
            if not self._open.acquire(timeout=seconds):
                return False
            self._open.release()  # for the next one who waits
        if self.error is not None:
            raise self.error
        return True


class Worker:
    """A daemon thread that runs one job after another; it ends with its last reference."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[tuple[Callable[[], object], Outcome] | None] = SimpleQueue()
        self._last = Outcome()
        self._last.end(None)
        threading.Thread(target=_work, args=(self._jobs,), name=name, daemon=True).start()

    def submit(self, job: Callable[[], object]) -> Outcome:
        self._last = outcome = Outcome()
        self._jobs.put((job, outcome))
        return outcome

    @property
    def idle(self) -> bool:
        return self._last.done

    def __del__(self) -> None:
        self._jobs.put(None)


def _work(jobs: SimpleQueue[tuple[Callable[[], object], Outcome] | None]) -> None:
    while (item := jobs.get()) is not None:
        job, outcome = item
        error: BaseException | None = None
        try:
            job()
        except BaseException as raised:  # the waiter gets it, whatever it is
            error = raised
        del item, job  # or the last operation's tensors would live until the next one
        outcome.end(error)
        del outcome, error


class Work:
    """Handle of an operation that may still run, as ``async_op=True`` returns it.

    Args:
        watch: waits for the outcome for some seconds, as the communicator does, and raises what went wrong.
    """

    def __init__(self, outcome: Outcome, watch: Callable[[Outcome, float | None], None]) -> None:
        self._outcome, self._watch = outcome, watch

    def wait(self, timeout: timedelta | float | None = None) -> bool:
        """Block until the operation is over.

        Args:
            timeout: seconds (or a timedelta) to wait here; None waits as long as the operation's own timeout.

        Raises:
            CollectiveError: what went wrong with it, or ``timeout`` passed (the operation goes on).
        """
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        try:
            self._watch(self._outcome, seconds)
        except TimeoutError:
            raise CollectiveError(f"the operation is not over after {seconds} s of waiting; it goes on") from None
        return True

    def is_completed(self) -> bool:
        """Whether it is over, well or not."""
        return self._outcome.done

    def exception(self) -> BaseException | None:
        """What went wrong, if it is over and something did."""
        return self._outcome.error


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
