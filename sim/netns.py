"""A host made of Linux namespaces: a network, a hostname and processes of its own; files are those of the machine.

The namespaces have no names. They live as long as their first process (``pid1.py``), which lives as long as its parent:
so nothing is left behind, however the parent ends, and hosts of different parents cannot meet.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO

TOOLS = {
    "ip": "iproute2",
    "tc": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "mount": "mount",
    "env": "coreutils",
    "tee": "coreutils",
}


class Unavailable(RuntimeError):
    """This system cannot make hosts; the text says what is missing."""


def check() -> None:
    """Whether hosts can be made here.

    Raises:
        Unavailable: not Linux, not root, or a tool is missing.
    """
    if sys.platform != "linux":
        raise Unavailable(f"hosts are made of network namespaces, which only Linux has, not {sys.platform}")
    for tool, package in TOOLS.items():
        if shutil.which(tool) is None:
            raise Unavailable(f"hosts are made with {tool}, which is not on the PATH: install {package}")
    if os.geteuid() != 0:
        raise Unavailable(
            "hosts are made of network namespaces, which only root may make: run it as root, or in `unshare -Ur`"
        )


class Host:
    """One host, up when it has been made, without any network yet. Close it.

    Attributes:
        pid: a process whose network namespace is that of the host.

    Raises:
        Unavailable: the system refuses.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        apart = ["unshare", "--net", "--uts", "--pid", "--mount-proc", "--fork", "--kill-child"]
        first = [sys.executable, "-E", "-S", str(Path(__file__).with_name("pid1.py")), name]
        self._first = subprocess.Popen(
            [*apart, *first],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C at the terminal is for what runs on the host
        )
        self.pid = self._first.pid
        if self._answer() != "up\n":
            _, error = self._first.communicate()
            raise Unavailable(f"the system does not let us make namespaces ({error.strip().splitlines()[-1]})")

    def spawn(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        stdout: int | IO[str] | None,
        stderr: int | IO[str] | None,
    ) -> subprocess.Popen[str]:
        """Start a process on this host, in this directory; arguments as for ``subprocess.Popen``.

        What is returned waits for the process and has its exit status; signals stop at it. To end it, ``clear``.
        """
        spaces = ["--net", "--uts", "--mount", f"--pid=/proc/{self.pid}/ns/pid_for_children"]
        # env, as entering a mount namespace leaves the directory, and nsenter can return to it in new versions only
        command = ["nsenter", f"--target={self.pid}", *spaces, "env", f"--chdir={os.getcwd()}", *argv]
        return subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, text=True, errors="replace"
        )

    def configure(self, argv: Sequence[str], lines: Iterable[str] = ()) -> None:
        """Run a tool on this host's network and mounts, with the lines as its input.

        Raises:
            Unavailable: the kernel refuses.
        """
        # not in its process namespace: the lines may name processes as they are numbered outside
        command = ["nsenter", f"--target={self.pid}", "--net", "--mount", *argv]
        done = subprocess.run(command, input="\n".join([*lines, ""]), capture_output=True, text=True)
        if done.returncode:
            raise Unavailable(f"{argv[0]} failed on {self.name}: {' '.join(done.stderr.split())}")

    def clear(self) -> None:
        """End all processes on this host: SIGTERM, and SIGKILL two seconds later."""
        self._tell("clear\n")
        self._answer()

    def close(self) -> None:
        """End all processes, and the host itself; more than once is fine."""
        self._tell("close\n")
        self._first.communicate()

    def _tell(self, line: str) -> None:
        assert self._first.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):  # it has gone already
            self._first.stdin.write(line)
            self._first.stdin.flush()

    def _answer(self) -> str:
        assert self._first.stdout is not None
        return self._first.stdout.readline()
