"""What a host is, in words and as its tools print it: GPUs, NICs, driver, topology. Needs no torch.

Every value is text or None: tools that are missing, fail or hang are told apart by nobody here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

_PATIENCE = 20.0  # seconds; nvidia-smi is slow where no persistence daemon runs
_DRIVER = Path("/proc/driver/nvidia/version")


def topology_text() -> str | None:
    """What ``nvidia-smi topo -m`` prints."""
    return _said_by("nvidia-smi", "topo", "-m")


def driver_version() -> str | None:
    """Of the NVIDIA driver."""
    try:
        match = re.search(r"Kernel Module\D*?([\d.]{3,})", _DRIVER.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None
    return match[1] if match else None


def nics() -> list[str]:
    """RDMA devices, else the network interfaces that are up and not loopback or bridges of containers."""
    rdma = _names(Path("/sys/class/infiniband"))
    if rdma:
        return rdma
    found = []
    for name in _names(Path("/sys/class/net")):
        state = Path("/sys/class/net", name, "operstate")
        try:
            up = state.read_text(encoding="ascii").strip() == "up"
        except OSError:
            continue
        if up and not name.startswith(("lo", "docker", "veth", "br-")):
            found.append(name)
    return found


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _said_by(*command: str) -> str | None:
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False, errors="replace")
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 and done.stdout.strip() else None
