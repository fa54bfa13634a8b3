"""All processes that descend from one, also those that have left its group; what they take, and their end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

LINUX = sys.platform == "linux"
_PATIENCE = 10.0  # seconds until all have ended; one that waits for a disk cannot be ended sooner


@dataclass(frozen=True)
class _Process:
    parent: int
    group: int
    threads: int
    dead: bool


@dataclass(frozen=True)
class Usage:
    """What each process of a family takes: threads, and bytes of memory."""

    threads: Mapping[int, int]
    memory: Mapping[int, int]


class Family:
    """The descendants of ``head`` (0: nobody yet), and what came to us of them when ``head`` had died."""

    def __init__(self) -> None:
        self.head = 0
        us = os.getpid()
        self._own = {pid for pid, process in _processes().items() if process.parent == us} if LINUX else set()
        self._groups: set[int] = set()
        self._known: set[int] = set()  # all that have been members

    def members(self) -> dict[int, _Process]:
        """Those that live, without the head."""
        if not self.head:
            return {}
        processes, us, ours = _processes(), os.getpid(), os.getpgid(0)
        heads = {self.head}
        if LINUX:  # orphans of the head come to us; it has left our session, so they cannot be in our group
            heads |= {
                pid
                for pid, process in processes.items()
                if process.parent == us and process.group != ours and pid not in self._own
            }
        below: dict[int, list[int]] = {}
        for pid, process in processes.items():
            below.setdefault(process.parent, []).append(pid)
        found: dict[int, _Process] = {}
        rows = [pid for pid in heads if pid in processes]
        while rows:
            pid = rows.pop()
            if pid not in found:
                found[pid] = processes[pid]
                rows += below.get(pid, [])
        if not LINUX:  # orphans have gone to the first process of the system; the groups that they were in tell
            self._groups |= {process.group for process in found.values()} - {ours}
            found |= {pid: process for pid, process in processes.items() if process.group in self._groups}
        members = {pid: process for pid, process in found.items() if pid != self.head and not process.dead}
        self._known |= members.keys()
        return members

    def usage(self, bound: int) -> Usage:
        """What each takes; nothing where the system cannot tell.

        Memory that forked processes share is counted once, but only if it matters: near ``bound``.
        """
        if not LINUX:
            return Usage({}, {})
        members = self.members()
        memory = {pid: _private(pid) for pid in members}
        if sum(memory.values()) > bound:
            memory = {pid: _proportional(pid) for pid in members}
        if sum(memory.values()) > bound:  # or some have ended meanwhile, and left their share to those seen after them
            members = self.members()
            memory = {pid: _proportional(pid) for pid in members}
        return Usage({pid: process.threads for pid, process in members.items()}, memory)

    def end(self) -> None:
        """End all members: stop them first, so that none can start another while others are ended."""
        until = time.monotonic() + _PATIENCE
        while (members := self.members()) and time.monotonic() < until:
            stopped: set[int] = set()
            while fresh := members.keys() - stopped:
                for pid in fresh:
                    _send(pid, signal.SIGSTOP)
                stopped |= fresh
                members = self.members()
            for pid in stopped:
                _send(pid, signal.SIGKILL)
            time.sleep(0.002)
        self._reap()

    def _reap(self) -> None:
        """Wait for those that came to us, and for nobody else's: who has started a process asks how it ended."""
        until = time.monotonic() + 1
        for pid in self._known:
            with contextlib.suppress(ChildProcessError):  # it has not come to us
                while os.waitpid(pid, os.WNOHANG) == (0, 0) and time.monotonic() < until:
                    time.sleep(0.002)


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _processes() -> dict[int, _Process]:
    return _from_proc() if LINUX else _from_ps()


def _from_proc() -> dict[int, _Process]:
    found = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                # the name of the program, in brackets, may hold anything
                fields = Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()
                found[int(name)] = _Process(int(fields[1]), int(fields[2]), int(fields[17]), fields[0] in (b"Z", b"X"))
    return found


def _from_ps() -> dict[int, _Process]:
    asked = ["ps", "-axo", "pid=,ppid=,pgid=,stat="]
    listed = subprocess.run(asked, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL).stdout
    rows = (line.split() for line in listed.splitlines())
    return {int(pid): _Process(int(parent), int(group), 1, state[0] == "Z") for pid, parent, group, state, *_ in rows}


def _private(pid: int) -> int:
    """Bytes that a process holds without those of files; what forked processes share counts for each."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("RssAnon:", "RssShmem:")))


def _proportional(pid: int) -> int:
    """The same, where what n processes share counts an n-th for each."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return _private(pid)
    kept = ("Pss_Anon:", "Pss_Shmem:", "SwapPss:")
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(kept))
