"""What a measurement was made on: versions, devices, hosts, and the settings of the transport."""

from __future__ import annotations

import os
import platform
import socket
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from . import __version__
from .settings import Settings, cores

_PREFIXES = ("NCCL_", "GLOO_", "TORCH_NCCL_", "TORCH_GLOO_")


def describe(settings: Settings, backend: str) -> dict[str, Any]:
    """The same on every rank: a collective operation. Environment variables are rank 0's."""
    everyone: list[Any] = [None] * dist.get_world_size()
    device = torch.cuda.get_device_name() if backend == "nccl" else _processor()
    dist.all_gather_object(everyone, (socket.gethostname(), device, cores(), _is_batch()))
    hosts = Counter(host for host, *_ in everyone)
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "ringlab": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "backend": backend,
        "nccl": ".".join(map(str, torch.cuda.nccl.version())) if backend == "nccl" else None,
        "devices": dict(Counter(device for _, device, *_ in everyone)),
        "hosts": dict(hosts),
        "ranks": len(everyone),
        "cores": {host: count for host, _, count, _ in everyone},
        "threads": torch.get_num_threads(),
        "scheduler": "batch" if all(batch for *_, batch in everyone) else "default",
        "autogroup": _is_apart(),
        "congestion_control": _read("/proc/sys/net/ipv4/tcp_congestion_control"),
        "load": [round(load, 2) for load in os.getloadavg()] if hasattr(os, "getloadavg") else None,
        "mode": "blocking" if settings.blocking else "pipelined",
        "iters": settings.iters,
        "warmup_iters": settings.warmup,
        "rounds": settings.rounds,
        "check": settings.check,
        "command": sys.argv[1:],
        "variables": {name: value for name, value in sorted(os.environ.items()) if name.startswith(_PREFIXES)},
    }


def heading(environment: dict[str, Any], settings: Settings) -> list[str]:
    """The lines above the table."""
    e = environment
    one_host = len(e["hosts"]) == 1
    nccl = f", NCCL {e['nccl']}" if e["nccl"] else ""
    lines = [
        f"ringlab {e['ringlab']}, torch {e['torch']}{nccl}, python {e['python']}, backend {e['backend']}",
        f"ranks {e['ranks']}, hosts: {_counted(e['hosts'], 'rank')}, "
        f"cores a host: {', '.join(str(count) for count in e['cores'].values())}",
        f"devices: {_counted(e['devices'], 'rank')}",
        f"{settings.collective}, {e['mode']}: {settings.rounds} rounds of one block a contender; a block is "
        f"{f'{settings.iters} iterations' if settings.iters else 'iterations of about 40 ms'}; "
        f"warmup {settings.warmup}, check {settings.check}",
    ]
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


def _counted(counts: dict[str, int], unit: str) -> str:
    return ", ".join(f"{name} ({count} {unit}{'s' if count > 1 else ''})" for name, count in counts.items())


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
