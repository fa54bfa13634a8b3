"""Several hosts on this machine, each behind a network port of a given rate: what a cluster has, small and slow.

::

    with Hosts(4, rate="200mbit") as hosts:
        status = hosts.torchrun(["-m", "collectives", "bench"], ranks=2)

::

    host0            host1            host2                 a namespace each: network, hostname, processes
    eth0 198.18.0.1  eth0 198.18.0.2  eth0 198.18.0.3       tbf on what leaves: the port's rate
      |                |                |
    --+------ br0 -----+----------------+-------------      a bridge in a namespace of its own

With ``links=2`` a host has an eth1 as well, on a bridge of its own and at the same rate; the first half of its ranks
listen on eth0 only, the others on eth1. A connection leaves both its hosts by the link of the rank that listens: among
ranks of equal local number, which is how rings over several NICs go, by their own.

The network of the machine itself is not touched. All hosts share its CPUs, so compute is no faster for them, and a rate
is kept only if the CPUs can move so many bytes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from tempfile import NamedTemporaryFile
from typing import IO

from .netns import Host, Unavailable, check
from .units import parse_bandwidth

__all__ = ["Hosts", "Unavailable", "default_burst"]

_IP = ("ip", "-batch", "-")
MOST_HOSTS, MOST_LINKS = 250, 16
QUEUE = 16 << 20  # bytes that wait at a port at most: more than senders have under way, so that nothing is dropped
MASTER_PORT = 29500  # no host has anything else running
GRACE = 3.0  # seconds that the others have to end by themselves after a failure: ranks find out within two


def default_burst(rate: float) -> int:
    """Bytes that may leave at once after a pause, for a rate in bytes a second: half a millisecond's worth.

    They come on top of the rate, so 1 MiB at 200 mbit is 1% too fast. What a smaller bucket cannot hold is lost when
    the kernel's timer is late, as it is on busy CPUs.
    """
    return max(4 << 10, round(rate * 0.5e-3))


class Hosts:
    """``count`` hosts, up and joined; end them with ``close`` or a ``with`` block.

    Args:
        rate: at which each host sends, as ``200mbit`` or ``1gbit``, headers included; None: as fast as the CPUs can.
        burst: bytes that may leave at once after a pause; by default ``default_burst``.
        links: how many a host has, each with the rate to itself.

    Attributes:
        names, addresses: of each host, the address on its first link. ports: names of a host's links, ``eth0``, ….

    Raises:
        ValueError: an argument that makes no sense.
        Unavailable: this system cannot make hosts, and why.
    """

    def __init__(self, count: int, rate: str | None = None, burst: int | None = None, links: int = 1) -> None:
        if not 1 <= count <= MOST_HOSTS:
            raise ValueError(f"hosts {count}: make from 1 to {MOST_HOSTS}")
        if not 1 <= links <= MOST_LINKS:
            raise ValueError(f"links {links}: give a host from 1 to {MOST_LINKS}")
        speed = None if rate is None else parse_bandwidth(rate, "rate")
        if burst is not None and (speed is None or burst < 1600):
            raise ValueError(f"burst {burst}: " + ("a packet has 1514 bytes" if speed else "without a rate is nothing"))
        check()
        self.names = [f"host{i}" for i in range(count)]
        self.addresses = [_address(0, i) for i in range(count)]
        self.ports = [f"eth{link}" for link in range(links)]
        self._processes: list[subprocess.Popen[str]] = []
        self._hosts: list[Host] = []
        try:
            for name in ("switch", *self.names):
                self._hosts.append(Host(name))
            self._join()
            if speed is not None:
                self._shape(speed, burst or default_burst(speed))
        except BaseException:
            self.close()
            raise

    def _join(self) -> None:
        switch, *hosts = self._hosts
        lines = []
        for link, port in enumerate(self.ports):
            lines += [f"link add br{link} type bridge", f"link set br{link} up"]
            for host in hosts:
                cable = f"{host.name}.{link}"
                lines.append(f"link add {cable} type veth peer name {port} netns {host.pid}")
                lines.append(f"link set {cable} master br{link} up")
        switch.configure(_IP, lines)
        for i, host in enumerate(hosts):
            lines = ["link set lo up"]
            for link, port in enumerate(self.ports):
                lines.append(f"link set {port} addrgenmode none up")  # no IPv6 address, which gloo might prefer
                lines.append(f"address add {_address(link, i)}/24 dev {port}")
            host.configure(_IP, lines)
        with NamedTemporaryFile("w", prefix="hosts-") as table:  # once mounted it stays, without a name
            table.write("127.0.0.1 localhost\n")
            for name, address in zip(self.names, self.addresses, strict=True):
                # torch asks who an address is as IPv6 writes it, and complains if nobody knows
                table.write(f"{address} {name}\n::ffff:{address} {name}.ipv6\n")
            table.flush()
            for host in hosts:
                host.configure(["mount", "--bind", table.name, "/etc/hosts"])

    def _shape(self, speed: float, burst: int) -> None:
        bucket = f"rate {round(speed * 8)}bit burst {burst} limit {QUEUE}"
        # one packet of several segments takes one timer and one walk through the kernel: a quarter of the CPU time;
        # the quarter of the burst that is left covers the timers that are late
        segments = min(burst * 3 // 4, 1 << 16)
        for host in self._hosts[1:]:
            host.configure(_IP, [f"link set {port} gso_max_size {segments}" for port in self.ports])
            host.configure(["tc", "-batch", "-"], [f"qdisc add dev {port} root tbf {bucket}" for port in self.ports])
            # every kernel has it, and it fills the port; bbr paces by itself and loses a tenth against the bucket
            host.configure(["tee", "/proc/sys/net/ipv4/tcp_congestion_control"], ["reno"])

    def spawn(
        self,
        host: int,
        argv: Sequence[str],
        *,
        stdout: int | IO[str] | None = None,
        stderr: int | IO[str] | None = None,
    ) -> subprocess.Popen[str]:
        """Start a process on a host, in this directory; what is returned waits for it, and has its exit status.

        A signal to what is returned does not reach the process: ``clear`` ends what runs on a host.
        """
        # one thread, as the hosts share the CPUs; torch need not guess which interface is meant
        env = {"OMP_NUM_THREADS": "1", **os.environ, "GLOO_SOCKET_IFNAME": "eth0", "NCCL_SOCKET_IFNAME": "eth0"}
        process = self._hosts[host + 1].spawn(argv, env, stdout, stderr)
        self._processes.append(process)
        return process

    def clear(self, host: int) -> None:
        """End all processes on a host: SIGTERM, and SIGKILL two seconds later."""
        self._hosts[host + 1].clear()

    def run(self, argv: Sequence[str], timeout: float | None = None) -> int:
        """Run the same command on every host, and wait.

        The first host's output is passed on as it is, that of the others goes to stderr, each line with the host's
        name before it. When a command fails, the others have 3 s to end by themselves.

        Returns:
            0, or the exit status of the first that failed (128 + the signal, if one killed it).

        Raises:
            TimeoutError: not all ended in time; all have been ended since.
        """
        return self._run([argv] * len(self.names), timeout)

    def torchrun(self, args: Sequence[str], ranks: int = 1, timeout: float | None = None) -> int:
        """Run ``torchrun args`` on every host, with ``ranks`` processes each, as one job; the rest as for ``run``."""
        if ranks < 1:
            raise ValueError(f"ranks {ranks}: start at least 1 a host")
        meet = [f"--nnodes={len(self.names)}", f"--nproc-per-node={ranks}"]
        meet += [f"--master-addr={self.addresses[0]}", f"--master-port={MASTER_PORT}"]
        torchrun = [sys.executable, "-m", "torch.distributed.run", *meet]
        job = list(args) if len(self.ports) == 1 else [*self._on_own_link(), sys.executable, "-u", *args]
        return self._run([[*torchrun, f"--node-rank={i}", *job] for i in range(len(self.names))], timeout)

    def _on_own_link(self) -> list[str]:
        """What to put before a rank's command: torchrun gives all ranks of a host one environment."""
        port = f"eth$((LOCAL_RANK * {len(self.ports)} / LOCAL_WORLD_SIZE))"
        return ["--no-python", "sh", "-c", f'GLOO_SOCKET_IFNAME={port} NCCL_SOCKET_IFNAME={port} exec "$0" "$@"']

    def close(self) -> None:
        """End the hosts and everything on them; more than once is fine."""
        _each(Host.close, self._hosts)
        for process in self._processes:
            process.wait()

    def __enter__(self) -> Hosts:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _run(self, commands: Sequence[Sequence[str]], timeout: float | None) -> int:
        processes: list[subprocess.Popen[str]] = []
        readers: list[threading.Thread] = []
        try:
            for i, argv in enumerate(commands):
                if i == 0:
                    processes.append(self.spawn(i, argv))
                    continue
                processes.append(self.spawn(i, argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
                readers.append(threading.Thread(target=_relay, args=(self.names[i], processes[i].stdout)))
                readers[-1].start()
            failed = _watch(processes, timeout)
            late = [name for name, process in zip(self.names, processes, strict=True) if process.returncode is None]
        finally:
            _each(Host.clear, self._hosts[1:])
            for reader in readers:
                reader.join()
            for process in processes:
                process.wait()
        if failed is None and late:
            raise TimeoutError(f"{', '.join(late)} did not end within {timeout:g} s")
        if failed is None:
            return 0
        code = processes[failed].returncode
        reason = f"exit status {code}" if code > 0 else f"killed by {signal.Signals(-code).name}"
        print(f"{self.names[failed]} failed first: {reason}", file=sys.stderr)
        return code if code > 0 else 128 - code


def _address(link: int, host: int) -> str:
    return f"198.18.{link}.{host + 1}"  # from the block for benchmarks


def _watch(processes: Sequence[subprocess.Popen[str]], timeout: float | None) -> int | None:
    """Wait for all, but after the first failure for GRACE only: the number of the one that failed first, if one did."""
    limit = float("inf") if timeout is None else time.monotonic() + timeout
    failed: int | None = None
    while True:
        running = [process for process in processes if process.poll() is None]
        if failed is None:
            failed = next((i for i, process in enumerate(processes) if process.returncode), None)
            if failed is not None:
                limit = min(limit, time.monotonic() + GRACE)
        if not running or time.monotonic() > limit:
            return failed
        time.sleep(0.05)


def _relay(name: str, lines: IO[str]) -> None:
    with lines:
        for line in lines:
            print(f"{name}: {line}", end="", file=sys.stderr, flush=True)


def _each(function: Callable[[Host], None], hosts: Sequence[Host]) -> None:
    """At the same time, as each may take seconds."""
    with ThreadPoolExecutor(max(1, len(hosts))) as pool:
        list(pool.map(function, hosts))
