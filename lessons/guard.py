"""The far side of a child: the guard, which waits for it, and the child itself, which settles in and works."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import os
import pickle
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

from .bounds import Bounds
from .family import Family
from .pipes import Begun, Ended

LINUX = sys.platform == "linux"
_SUBREAPER, _DIE_WITH_PARENT = 36, 1  # of prctl


@dataclass(frozen=True)
class Orders:
    """What a child is to do. folder: where it works; scratch: where its temporary files go. runner: the process not to
    outlive.
    """

    function: Callable[..., Iterator[object]]
    args: tuple[Any, ...]
    folder: Path
    scratch: Path
    bounds: Bounds
    runner: int


@dataclass(frozen=True)
class Lines:
    """The child's ends of the pipes. status: of the guard; stack: where the child stands, when it is asked."""

    events: Connection
    printed: Connection
    status: Connection
    stack: Connection

    def close(self) -> None:
        for end in (self.events, self.printed, self.status, self.stack):
            end.close()


def guard(orders: Orders, lines: Lines, inherited: Sequence[Connection]) -> None:
    """Start the child, wait for it, say how it ended, and stay for what it leaves behind, until the runner ends us."""
    for end in inherited:
        end.close()
    os.setsid()
    _close_others(lines)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGUSR2, lambda number, frame: _end_all(orders.scratch))
    _die_with(orders.runner, signal.SIGUSR2)
    adopt_orphans()
    here = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            lines.status.close()
            _live(orders, lines, here)
        finally:
            os._exit(70)
    for end in (lines.events, lines.printed, lines.stack):
        end.close()
    while True:
        try:
            pid, how = os.wait()
        except ChildProcessError:
            signal.pause()
            continue
        if pid == child:
            with contextlib.suppress(OSError):
                lines.status.send_bytes(str(os.waitstatus_to_exitcode(how)).encode())


def _close_others(lines: Lines) -> None:
    """Nothing that the runner has open, its terminal for instance, is open in the child; a fork has copied it."""
    if LINUX:
        kept = {0, 1, 2, *(end.fileno() for end in (lines.events, lines.printed, lines.status, lines.stack))}
        for number in map(int, os.listdir("/proc/self/fd")):
            if number not in kept:
                with contextlib.suppress(OSError):  # the folder's own
                    os.close(number)


def adopt_orphans() -> None:
    """From now on what our descendants leave behind becomes our child, not the system's first process's (Linux)."""
    if LINUX:
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def _live(orders: Orders, lines: Lines, parent: int) -> None:
    """Settle in, do the work, send what it yields, and leave without any of Python's clearing up."""
    os.setsid()
    _settle(parent)
    _redirect(lines.printed)
    faulthandler.enable(lines.stack.fileno(), all_threads=False)  # a crash says where
    faulthandler.register(signal.SIGUSR1, file=lines.stack.fileno(), all_threads=False)
    _limit(orders.bounds)
    tempfile.tempdir = str(orders.scratch)
    os.environ |= {"LESSONS_FOLDER": str(orders.folder), "TMPDIR": str(orders.scratch), "OMP_NUM_THREADS": "1"}
    # a name that torch gives up for a new one would be said once for each rank and run
    os.environ["PYTHONWARNINGS"] = "ignore:`torch.distributed:FutureWarning"
    warnings.filterwarnings("ignore", "`torch.distributed", FutureWarning)
    os.chdir(orders.folder)
    sys.dont_write_bytecode = True
    gc.freeze()
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)
    last = Ended()
    _send(lines.events, Begun(os.getpid()))
    try:
        for event in orders.function(*orders.args):
            _send(lines.events, event)
    except SystemExit as exit:
        os._exit(exit.code & 255 if isinstance(exit.code, int) else exit.code is not None)
    except BaseException:
        last = Ended(traceback.format_exc())
    for stream in (sys.stdout, sys.stderr):  # before the last word, after which the runner ends us
        with contextlib.suppress(Exception):
            stream.flush()
    _send(lines.events, last)
    os._exit(0)


def _send(events: Connection, what: object) -> None:
    """Say it; a child whose line to the runner is closed (by the learner's file) has nothing left to do."""
    word = pickle.dumps(what)
    try:
        events.send_bytes(word)
    except OSError:
        os._exit(0)


def _settle(parent: int) -> None:
    """Nothing of the runner's acts here: none of its signal handlers. And we end when the guard does."""
    for number in signal.valid_signals():
        if number not in (signal.SIGKILL, signal.SIGSTOP) and signal.getsignal(number) is not signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # errors, as Python has it
        signal.signal(number, signal.SIG_IGN)
    _die_with(parent)


def _end_all(scratch: Path) -> None:
    """The runner has gone: what the child has started, and who knows of nobody, ends with us, and its files go."""
    family = Family()
    family.head = os.getpid()
    family.end()
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(1)


def _die_with(parent: int, by: signal.Signals = signal.SIGKILL) -> None:
    if LINUX:
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, by, 0, 0, 0)
        if os.getppid() != parent:  # it ended before we had asked
            os.kill(os.getpid(), by)


def _redirect(printed: Connection) -> None:
    """No input; all output into the pipe, line by line, also that of processes it starts."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    for number in (1, 2):
        os.dup2(printed.fileno(), number)
    printed.close()

    def text(number: int, mode: Literal["r", "w"]) -> Any:
        return open(number, mode, encoding="utf-8", errors="replace", buffering=1, closefd=False)

    sys.stdin, sys.stdout, sys.stderr = text(0, "r"), text(1, "w"), text(2, "w")


def _limit(bounds: Bounds) -> None:
    """Bounds that the system keeps, for each process."""
    import resource

    limits = {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": bounds.file, "RLIMIT_DATA": bounds.data}
    for name, most in limits.items():
        with contextlib.suppress(AttributeError, ValueError, OSError):  # not every system has all of them
            which = getattr(resource, name)
            _, hard = resource.getrlimit(which)
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(which, (most, most))
