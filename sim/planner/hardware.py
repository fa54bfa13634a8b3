"""A GPU and what joins it to others, as the step model sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..chip import Chip
from ..gpu import find_gpu
from ..machine import Machine
from ..presets import PRESETS
from ..protocols import AMPERE, protocols
from .constants import SHARE, SHARES

HOSTS = {
    "v100": "dgx-2", "v100-16g": "dgx-1v", "a100": "dgx-a100", "a100-40g": "dgx-a100", "a800": "dgx-a800",
    "h100": "dgx-h100", "h200": "dgx-h200", "h800": "dgx-h800", "h20": "dgx-h20", "b200": "dgx-b200",
    "b300": "dgx-b200", "gb200": "gb200-nvl72", "gb300": "gb200-nvl72", "mi300x": "mi300x", "t4": "2xt4",
}  # fmt: skip


@dataclass(frozen=True)
class Hardware:
    """nvlink: bytes a second that a GPU sends inside its node; nic: its share of what its node's NICs send; local: GPUs
    of a node; host: bytes a second to host memory; inside, between: seconds of a hop inside a node, and between nodes;
    share: of its multiprocessors, that communication under computing takes."""

    chip: Chip
    machine: str
    nvlink: float
    nic: float
    local: int
    host: float
    inside: float
    between: float
    share: float


def hardware_of(chip: Chip, machine: Machine | None = None) -> Hardware:
    """This GPU in this machine; by default in the preset that it usually sits in.

    Raises:
        ValueError: a machine whose nodes have no GPUs.
    """
    machine = machine or PRESETS[HOSTS.get(chip.name, "pcie-8")]
    if machine.kind != "cluster":
        raise ValueError(f"machine {machine.name} is no cluster of GPUs: use dgx-a100, dgx-h100, pcie-8, …")
    said: dict[str, Any] = {
        "node": "nvswitch",
        "local": 8,
        "nvlink": 450e9,
        "pcie": 24e9,
        "nic": 50e9,
        "latency": (3e-6, 8e-6),
    }
    said |= machine.parameters
    local = said["local"]
    inside = {"nvswitch": said["nvlink"], "linked": said["nvlink"] * _links(said)}.get(said["node"], said["pcie"])
    nics = said.get("nics") or local
    nic = said["nic"] * nics / local / said.get("oversubscription", 1)
    simple = next((way for way in machine.protocols if way.name == "ring/Simple"), protocols(AMPERE)[1])
    gpu = find_gpu(chip.name)
    return Hardware(
        chip, machine.name, inside, nic, local, gpu.pcie if gpu else said["pcie"], simple.inside,
        simple.between, SHARES.get(chip.name, SHARE),
    )  # fmt: skip


def _links(said: Mapping[str, Any]) -> float:
    """NVLinks of a GPU that is joined to others directly, on average."""
    links: Mapping[tuple[int, int], int] = said.get("links") or {}
    return 2 * sum(links.values()) / int(said["local"])
