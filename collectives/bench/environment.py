"""What a measurement was made on: versions, devices, hosts, and the settings of the transport."""

from __future__ import annotations

import os
import platform
import socket
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from .. import __version__
from .machine_text import driver_version, nics, topology_text
from .order import Seat, shown
from .settings import Settings, cores

_PREFIXES = ("NCCL_", "GLOO_", "TORCH_NCCL_", "TORCH_GLOO_")


@dataclass(frozen=True)
class Host:
    """What one rank says of where it is."""

    name: str
    device: str
    cores: int
    batch: bool
    nics: tuple[str, ...]
    driver: str | None
    topology: str | None


def describe(backend: str) -> tuple[dict[str, Any], list[str]]:
    """The same on every rank: a collective operation. Environment variables are rank 0's.

    Hosts are called host0, host1, … in the order of their ranks, so that a file can be given away; their real names
    come beside it, for the heading.
    """
    everyone = _gathered(backend)
    names = {name: f"host{i}" for i, name in enumerate(dict.fromkeys(host.name for host in everyone))}
    first = {names[host.name]: host for host in reversed(everyone)}
    environment = {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "ringlab": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "backend": backend,
        "nccl": ".".join(map(str, torch.cuda.nccl.version())) if backend == "nccl" else None,
        "devices": dict(Counter(host.device for host in everyone)),
        "hosts": dict(Counter(names[host.name] for host in everyone)),
        "ranks": len(everyone),
        "cores": {name: first[name].cores for name in names.values()},
        "nics": {name: list(first[name].nics) for name in names.values()},
        "driver": {name: first[name].driver for name in names.values()},
        "topology": {name: text for name in names.values() if (text := first[name].topology)},
        "threads": torch.get_num_threads(),
        "scheduler": "batch" if all(host.batch for host in everyone) else "default",
        "autogroup": _is_apart(),
        "congestion_control": _read("/proc/sys/net/ipv4/tcp_congestion_control"),
        "load": [round(load, 2) for load in os.getloadavg()] if hasattr(os, "getloadavg") else None,
        "command": sys.argv[1:],
        "variables": {
            name: value
            for name, value in sorted(os.environ.items())
            if name.startswith(_PREFIXES) and not name.startswith("NCCL_DEBUG")
        },
    }
    return environment, list(names)


def hosts_of_ranks(names: Sequence[str]) -> list[str]:
    """Every rank's host, as files call it; a collective operation.

    Args:
        names: what the hosts are really called, in the order of their ranks.
    """
    return [seat.host for seat in seats_of_ranks(names)]


def seats_of_ranks(names: Sequence[str], backend: str = "gloo") -> list[Seat]:
    """Every rank's host, as files call it, and interface; ``names`` as for ``hosts_of_ranks``.

    gloo takes the interface that it is told (all ranks of a host the same, if none); of NCCL it is assumed that
    neighbouring ranks share a host's NICs equally.
    """
    interface = os.environ.get("GLOO_SOCKET_IFNAME", "")
    if backend == "nccl":
        local, ranks = int(os.environ.get("LOCAL_RANK", 0)), int(os.environ.get("LOCAL_WORLD_SIZE", 1))
        interface = f"NIC {local * (len(nics()) or 1) // ranks}"
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, (socket.gethostname(), interface))
    return [Seat(f"host{names.index(name)}", interface) for name, interface in everyone]


def asked(settings: Settings) -> dict[str, Any]:
    """What a run was asked for, as far as it is to be known later."""
    return {
        "mode": "blocking" if settings.blocking else "pipelined",
        "iters": settings.iters,
        "warmup_iters": settings.warmup,
        "rounds": settings.rounds,
        "cycles": settings.cycles,
        "check": settings.check,
        "channels": settings.channels,
        "groups": [list(group) for group in settings.groups] if len(settings.groups) > 1 else None,
        "orders": [list(order) for order in settings.orders],
    }


def machine_lines(environment: dict[str, Any], names: Sequence[str]) -> list[str]:
    """The versions, and a line a host."""
    e = environment
    nccl = f", NCCL {e['nccl']}" if e["nccl"] else ""
    lines = [f"ringlab {e['ringlab']}, torch {e['torch']}{nccl}, python {e['python']}, backend {e['backend']}"]
    return lines + [_host_line(e, host, name) for host, name in zip(e["hosts"], names, strict=True)]


def heading(environment: dict[str, Any], settings: Settings, names: Sequence[str], graph: bool) -> list[str]:
    """The lines above the table.

    Args:
        names: what the hosts are really called. graph: ours are captured.
    """
    e = environment
    one_host = len(e["hosts"]) == 1
    lines = machine_lines(e, names)
    lines += [
        f"{settings.collective}, {e['mode']}: {settings.rounds} rounds of one block a contender; a block is "
        f"{f'{settings.iters} iterations' if settings.iters else 'iterations of about 40 ms'}; "
        f"warmup {settings.warmup}, check {settings.check}",
    ]
    if graph:
        lines.append("graph: ours and the wire are captured in CUDA graphs, once a size, and replayed")
    if len(settings.groups) > 1:
        groups = " | ".join(" ".join(map(str, group)) for group in settings.groups)
        lines.append(f"{len(settings.groups)} groups at once: {groups}")
    if settings.orders:
        lines.append(shown(settings.orders))
    if e["scheduler"] == "batch":
        lines.append(
            "scheduler: SCHED_BATCH set on the ranks, for ours and the backend's alike; "
            "--scheduler default switches it off"
        )
        if e["autogroup"]:
            lines.append(
                "each rank is a session of its own (as torchrun starts them), and kernel.sched_autogroup_enabled=1 "
                "undoes SCHED_BATCH between sessions: small messages take about twice as long"
            )
    if e["backend"] == "gloo" and one_host:
        cc = f" ({e['congestion_control']})" if e["congestion_control"] else ""
        lines.append(f"gloo on one host: bandwidth is that of loopback TCP{cc}, which the CPU copies")
    lines += [f"{name}={value}" for name, value in e["variables"].items()]
    lines += [f"left out {skipped}" for skipped in settings.skipped]
    lines.append("ratio: ours / native in time, below 1 is faster; null: native again / native, the noise of this run")
    return lines


def _host_line(environment: dict[str, Any], host: str, name: str) -> str:
    """``host0 (node-a): 8 ranks, NVIDIA H100, 96 cores, NICs mlx5_0 mlx5_1, driver 550.54, NCCL 2.29.7``."""
    e, ranks = environment, environment["hosts"][host]
    parts = [f"{ranks} rank{'s' if ranks > 1 else ''}", ", ".join(e["devices"]), f"{e['cores'][host]} cores"]
    if e["nics"][host]:
        parts.append(f"NICs {' '.join(e['nics'][host])}")
    if e["driver"][host]:
        parts.append(f"driver {e['driver'][host]}")
    if e["nccl"]:
        parts.append(f"NCCL {e['nccl']}")
    return f"{host} ({name}): {', '.join(parts)}"


def _gathered(backend: str) -> list[Host]:
    """Every rank's host; only the first rank of each asks nvidia-smi, which takes a second."""
    everyone: list[Any] = [None] * dist.get_world_size()
    mine = socket.gethostname()
    dist.all_gather_object(everyone, mine)
    topology = topology_text() if everyone.index(mine) == dist.get_rank() else None
    device = torch.cuda.get_device_name() if backend == "nccl" else _processor()
    host = Host(mine, device, cores(), _is_batch(), tuple(nics()), driver_version(), topology)
    dist.all_gather_object(everyone, host)
    return everyone


def _processor() -> str:
    for line in (_read("/proc/cpuinfo") or "").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _is_apart() -> bool:
    """Whether the scheduler weighs this process against the other ranks as a session, whatever its own class."""
    enabled = _read("/proc/sys/kernel/sched_autogroup_enabled") == "1"
    return enabled and hasattr(os, "getsid") and os.getsid(0) == os.getpid()


def _is_batch() -> bool:
    return hasattr(os, "SCHED_BATCH") and os.sched_getscheduler(0) == os.SCHED_BATCH


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return None
