"""The parent's side of a set of rank processes: start them, listen to all of them at once, leave none behind.

The parent owns the store through which the ranks meet. It makes it after the last fork, so no rank inherits its thread
or its sockets. It never touches CUDA.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import pickle
import re
import signal
import socket
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize
from typing import TYPE_CHECKING, Any, Literal, cast

from .registry import BUILT_IN
from .sentence import Sentence
from .worker import Failure, Orders, Result, Task, dumps, live

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

Start = Literal["fork", "spawn"]

# Threads start their ranks one after the other: a fork copies the locks that other threads hold at that moment, and a
# store holds that of the name resolver while ranks connect (also, for an instant, when they leave: so one thread is
# best). Reentrant, because the forked rank is its holder too.
_STARTING = threading.RLock()


class RankFailed(RuntimeError):
    """A rank raised, was killed or left. ``str(error)`` holds all of it.

    rank: the first that failed. reason: ``ValueError: …``, ``killed by signal SIGKILL (9)``, ``exited with code 3``.
    traceback: of that rank (innermost frame first if it crashed); empty if it could not leave one.
    others: rank → one line, for those that failed next (often because of the first) or had to be ended.
    """

    def __init__(self, rank: int, reason: str, traceback: str = "", others: dict[int, str] | None = None) -> None:
        self.rank, self.reason, self.traceback, self.others = rank, reason, traceback, dict(others or {})
        text = f"rank {rank} failed first: {reason}\n{traceback}".rstrip()
        super().__init__(text + _listing(self.others, "\nthe others: "))

    def __reduce__(self) -> tuple[type[RankFailed], tuple[int, str, str, dict[int, str]]]:
        return type(self), (self.rank, self.reason, self.traceback, self.others)


class RankTimeout(TimeoutError):
    """Time was up. ranks: those that had not ended; they have been ended since.

    tracebacks: rank → where it stood, innermost frame first; empty where the system cannot tell.
    """

    def __init__(self, ranks: Sequence[int], timeout: float, tracebacks: dict[int, str]) -> None:
        self.ranks, self.timeout, self.tracebacks = list(ranks), timeout, dict(tracebacks)
        who = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"
        stood = {rank: f"stood{_where(stack)}" for rank, stack in tracebacks.items() if _where(stack)}
        super().__init__(f"{who} did not end within {timeout:g} s" + _listing(stood, "; "))

    def __reduce__(self) -> tuple[type[RankTimeout], tuple[list[int], float, dict[int, str]]]:
        return type(self), (self.ranks, self.timeout, self.tracebacks)


class Crew:
    """One process a rank, all in the group, and the lines to them; with a ``task`` to do once, or for many (``work``).

    Raises:
        ValueError: a number of ranks or a way to start that makes no sense.
        RankFailed, RankTimeout: the group could not be made.
    """

    def __init__(
        self,
        orders: Orders,
        start: Start | None,
        task: Task | None,
        hopeless: Callable[[], bool] | None = None,
    ) -> None:
        if not isinstance(orders.ranks, int) or orders.ranks < 1:
            raise ValueError(f"ranks={orders.ranks!r}: start at least 1 process")
        start = start or _usual_start(orders.backend)
        known = [method for method in multiprocessing.get_all_start_methods() if method != "forkserver"]
        if start not in known:
            raise ValueError(f"start={start!r}: this system has {' and '.join(known)}")
        import torch.distributed as dist

        if start == "fork":  # what ranks import anyway: a warm parent makes them in milliseconds
            for module in ("communicator", "flight.flight", *BUILT_IN):
                importlib.import_module(f"{__package__}.{module}")
        if start == "fork" and dist.is_initialized():
            raise ValueError("start='fork': a rank cannot fork ranks, as they would inherit its group; use 'spawn'")
        self.orders = orders
        self._hopeless = hopeless
        self.deadline = time.monotonic() + orders.timeout
        self.processes: list[BaseProcess] = []
        self.lines: list[Connection] = []
        self.stacks: list[Connection] = []
        self._store: Store | None = None
        # for the pool that nobody closes: before multiprocessing waits, at exit, for ranks that wait for us
        self._finalize = Finalize(self, _end, (self.processes, self.lines, 0.0), exitpriority=100)
        # a forked rank has the task already and needs but a word to begin
        self._first = dumps(task) if start == "spawn" else b"begin"
        try:
            with _STARTING:
                for rank in range(orders.ranks):
                    self._start(rank, start, task if start == "fork" else None)
                listener = socket.create_server(("127.0.0.1", 0))  # torch's own would listen to the whole network
                port = listener.getsockname()[1]
                self._store = dist.TCPStore(  # type: ignore[attr-defined]
                    "127.0.0.1", port, is_master=True, wait_for_workers=False, master_listen_fd=listener.detach()
                )
                self._tell(str(port).encode())
                self._gather()
        except BaseException:
            self.end(0)
            raise

    def _start(self, rank: int, start: Start, task: Task | None) -> None:
        # the fork context has the same methods; only its class is missing on Windows
        context = cast(SpawnContext, multiprocessing.get_context(start))
        line, its_line = context.Pipe()
        stack, its_stack = context.Pipe(duplex=False)
        self.lines.append(line)
        self.stacks.append(stack)
        inherited = [*self.lines, *self.stacks] if start == "fork" else []
        process = context.Process(target=live, args=(rank, self.orders, its_line, its_stack, task, inherited))
        self.processes.append(process)
        with warnings.catch_warnings():
            # Python 3.12 warns of a parent with threads that forks; ours belong to stores, which no rank touches
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
        its_line.close()
        its_stack.close()

    def work(self, task: bytes) -> list[Any]:
        """One task for all; its results in rank order."""
        self.deadline = time.monotonic() + self.orders.timeout
        self._tell(task)
        return self._gather()

    def finish(self) -> list[Any]:
        """The results of ranks that were made with a task; returns when all have left."""
        self._tell(self._first)
        results = self._gather()
        self._tell(b"")
        for process in self.processes:
            process.join(max(0.0, self.deadline - time.monotonic()))
        if still := [rank for rank, process in enumerate(self.processes) if process.is_alive()]:
            raise RankTimeout(still, self.orders.timeout, self._terminate(still))
        for rank, process in enumerate(self.processes):
            if process.exitcode:
                raise RankFailed(rank, f"{_obituary(process)}, after its function had returned")
        return results

    def end(self, patience: float) -> None:
        """No rank is left afterwards; those that are idle have ``patience`` seconds to leave by themselves."""
        self._finalize.cancel()
        try:
            _end(self.processes, self.lines, patience)
        finally:
            for connection in (*self.lines, *self.stacks):
                connection.close()
            for process in self.processes:
                with contextlib.suppress(ValueError):  # its end was noticed by another thread that started ranks
                    process.close()
            self._store = None

    def _tell(self, message: bytes) -> None:
        for line in self.lines:
            with contextlib.suppress(OSError):  # whoever listens next notices that the rank has died
                line.send_bytes(message)

    def _gather(self) -> list[Any]:
        """One result a rank, or the error that says why not."""
        results: dict[int, Any] = {}
        failures: dict[int, Failure] = {}
        deadline = self.deadline
        while busy := [r for r in range(self.orders.ranks) if r not in results and r not in failures]:
            now = time.monotonic()
            if now >= deadline or (self._hopeless is not None and self._hopeless()):
                break
            for rank in self._stirred(busy, deadline - now):
                outcome = self._hear(rank, now)
                if isinstance(outcome, Result):
                    results[rank] = outcome.value
                else:
                    failures[rank] = outcome
                    deadline = min(deadline, time.monotonic() + self.orders.grace)
        if failures:
            first, *later = sorted(failures, key=lambda rank: failures[rank].when)
            others = {rank: textwrap.shorten(failures[rank].reason, 160, placeholder=" …") for rank in later}
            for rank, stack in self._terminate(busy).items():
                others[rank] = f"was still running{_where(stack)}, and was ended"
            raise RankFailed(first, failures[first].reason, failures[first].traceback, others)
        if busy:
            raise RankTimeout(busy, self.orders.timeout, self._terminate(busy))
        return [results[rank] for rank in range(self.orders.ranks)]

    def _stirred(self, busy: list[int], patience: float) -> list[int]:
        """The ranks that have said something or died."""
        handles: dict[Any, int] = {self.lines[rank]: rank for rank in busy}
        handles |= {self.processes[rank].sentinel: rank for rank in busy}
        # not longer than a second: a process of the rank's own may keep the handles of a dead rank open
        longest = 1.0 if self._hopeless is None else 0.25
        stirred = {handles[handle] for handle in wait(list(handles), min(patience, longest))}
        return sorted(stirred | {rank for rank in busy if not self.processes[rank].is_alive()})

    def _hear(self, rank: int, asked: float) -> Result | Failure:
        """What a rank that stirred has to say."""
        try:
            message = self.lines[rank].recv_bytes() if self.lines[rank].poll() else b""
        except (EOFError, OSError):
            message = b""
        if not message:
            self.processes[rank].join(1)
            # a dying process closes its sockets first: those that talked to it may fail a little before its death shows
            return Failure(_obituary(self.processes[rank]), _read(self.stacks[rank]), asked - 0.5)
        try:
            return cast("Result | Failure", pickle.loads(message))
        except Exception as error:
            return Failure(f"its result cannot be read here: {type(error).__name__}: {error}", "", time.monotonic())

    def _terminate(self, ranks: list[int]) -> dict[int, str]:
        """End these ranks; where each stood."""
        for rank in ranks:
            self.processes[rank].terminate()
        _bury([self.processes[rank] for rank in ranks])
        return {rank: _read(self.stacks[rank]) for rank in ranks}


def _end(processes: list[BaseProcess], lines: list[Connection], patience: float) -> None:
    started = [process for process in processes if process.pid is not None]
    try:
        if patience:
            for line in lines:
                with contextlib.suppress(OSError):
                    line.send_bytes(b"")
            limit = time.monotonic() + patience
            for process in started:
                process.join(max(0.0, limit - time.monotonic()))
        for process in started:
            process.terminate()
    finally:
        _bury(started)


def _bury(processes: list[BaseProcess]) -> None:
    """Wait a second for processes that were told to terminate, kill the deaf ones, and leave no zombie."""
    limit = time.monotonic() + 1
    try:
        for process in processes:
            process.join(max(0.0, limit - time.monotonic()))
    finally:  # also when interrupted
        for process in processes:
            process.kill()
        for process in processes:
            process.join()


def _usual_start(backend: str) -> Start:
    torch = sys.modules.get("torch")
    in_use = torch is not None and (torch.cuda.is_initialized() or torch.distributed.is_initialized())
    return "fork" if sys.platform == "linux" and "nccl" not in backend and not in_use else "spawn"


def _obituary(process: BaseProcess) -> str:
    code = process.exitcode
    if code is None:
        return Sentence("crew.line_closed", "closed its line to the parent")
    if code >= 0:
        return Sentence("crew.exited", "exited with code {code}", code=code)
    name = signal.Signals(-code).name if -code in signal.valid_signals() else "unknown"
    return Sentence("crew.killed", "killed by signal {name} ({number})", name=name, number=-code)


def _read(stack: Connection) -> str:
    """The stack that a rank left when it crashed or was told to terminate, without the frames that are ours."""
    try:
        text = os.read(stack.fileno(), 1 << 16).decode(errors="replace") if stack.poll() else ""
    except OSError:
        return ""
    text, end, _ = text.partition(f" in {live.__name__}\n")
    theirs, _, _ = text.partition(f'  File "{live.__code__.co_filename}"')
    return theirs if _where(theirs) else text + end


def _where(stack: str) -> str:
    """`` at line 12 of ring.py, in main``: the innermost frame outside torch and this package, else outside torch."""
    frames = re.findall(r'File "(.+?)", line (\d+) in (.+)', stack)
    frames = [frame for frame in frames if f"{os.sep}torch{os.sep}" not in frame[0]]
    outside = [frame for frame in frames if os.path.dirname(frame[0]) != os.path.dirname(__file__)]
    for path, line, name in (outside or frames)[:1]:
        return f" at line {line} of {os.path.basename(path)}, in {name}"
    return ""


def _listing(others: dict[int, str], before: str) -> str:
    shown = [f"rank {rank}: {line}" for rank, line in list(others.items())[:8]]
    more = [f"and {len(others) - 8} more"] if len(others) > 8 else []
    return before + "; ".join(shown + more) if others else ""
