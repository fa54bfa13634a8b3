"""Machines by name, and the reading of ``NAME|FILE[,key=value…]``.

NVLink and NIC speeds are what data get through, per direction: the links' own rate times the share that large
transfers reach. Sources: NVIDIA's data sheets and white papers for links; nccl-tests' published bus bandwidth
of rings for the shares (A100 235 of 300 GB/s, H100 and H200 366 of 450, V100 134 of 150).
"""

from __future__ import annotations

import difflib
from dataclasses import replace
from pathlib import Path

from collectives.cost import LOOPBACK

from .gpu import GPUS, gpu_of
from .machine import Costs, Machine, changed
from .nodes import CUBE_MESH
from .protocols import AMPERE, BLACKWELL, EFA, HOPPER, INFINIBAND, PCIE, VOLTA, Generation, protocols

NCCL = Costs(base=8e-6, gamma=0.0)  # a kernel is started; adding hides behind the links
GLOO = Costs(LOOPBACK.base, LOOPBACK.overhead, LOOPBACK.gamma)


def _switched(
    name: str,
    generation: Generation,
    nvlink: float,
    nic: float,
    gpu: str,
    source: str,
    local: int = 8,
    nics: int = 0,
    away: float = INFINIBAND,
) -> Machine:
    parameters = {
        "node": "nvswitch",
        "local": local,
        "nvlink": nvlink,
        "pcie": GPUS[gpu].pcie,
        "nic": nic,
        "latency": (3.4e-6, 14e-6),
    }
    chosen = protocols(generation, away)
    return Machine(name, "cluster", {**parameters, **({"nics": nics} if nics else {})}, NCCL, gpu, source, chosen)


PRESETS: dict[str, Machine] = {
    machine.name: machine
    for machine in (
        Machine(
            "dgx-1v",
            "cluster",
            {
                "node": "linked",
                "local": 8,
                "links": CUBE_MESH,
                "nvlink": 22.4e9,
                "pcie": 11e9,
                "socket": 9e9,
                "nics": 4,
                "nic": 11e9,
                "latency": (3.4e-6, 14e-6),
            },
            NCCL,
            "v100",
            "hybrid cube mesh, 6 NVLinks of 25 GB/s a GPU (of which 22.4 carry data), 4 NICs of 100 Gb/s",
            protocols(VOLTA),
        ),
        _switched("dgx-2", VOLTA, 134e9, 11e9, "v100", "6 NVLinks of 25 GB/s a GPU, 8 NICs of 100 Gb/s", 16, 8),
        _switched("dgx-a100", AMPERE, 235e9, 23.5e9, "a100", "12 NVLinks of 25 GB/s a GPU, 8 NICs of 200 Gb/s"),
        _switched("dgx-h100", HOPPER, 366e9, 47e9, "h100", "18 NVLinks of 25 GB/s a GPU, 8 NICs of 400 Gb/s"),
        _switched("dgx-h200", HOPPER, 366e9, 47e9, "h200", "18 NVLinks of 25 GB/s a GPU, 8 NICs of 400 Gb/s"),
        _switched("dgx-h20", HOPPER, 366e9, 47e9, "h20", "H100's links, 1/7 of its arithmetic, 8 NICs of 400 Gb/s"),
        _switched("dgx-a800", AMPERE, 157e9, 23.5e9, "a800", "8 NVLinks of 25 GB/s a GPU, 8 NICs of 200 Gb/s"),
        _switched("dgx-h800", HOPPER, 163e9, 47e9, "h800", "8 NVLinks of 25 GB/s a GPU, 8 NICs of 400 Gb/s"),
        _switched("dgx-b200", BLACKWELL, 680e9, 47e9, "b200", "18 NVLinks of 50 GB/s a GPU, 8 NICs of 400 Gb/s"),
        _switched("gb200-nvl72", BLACKWELL, 680e9, 47e9, "gb200", "72 GPUs on one switch, a NIC of 400 Gb/s each", 72),
        _switched("p4d", AMPERE, 235e9, 11.7e9, "a100", "AWS: DGX A100's links, 4 NICs of 100 Gb/s", nics=4, away=EFA),
        _switched("p5", HOPPER, 366e9, 47e9, "h100", "AWS: DGX H100's links, 400 Gb/s a GPU", away=EFA),
        _switched("p6-b200", BLACKWELL, 680e9, 47e9, "b200", "AWS: DGX B200's links, 400 Gb/s a GPU", away=EFA),
        Machine(
            "mi300x",
            "cluster",
            {
                "node": "linked",
                "local": 8,
                "links": {(a, b): 1 for a in range(8) for b in range(a + 1, 8)},
                "nvlink": 48e9,
                "pcie": 48e9,
                "socket": 32e9,
                "nic": 47e9,
                "latency": (4e-6, 14e-6),
            },
            NCCL,
            "mi300x",
            "8 GPUs, each joined with each by 64 GB/s of Infinity Fabric (of which 48 carry data)",
            protocols(AMPERE),
        ),
        *(
            Machine(
                f"pcie-{local}",
                "cluster",
                {
                    "node": "pcie",
                    "local": local,
                    "pcie": 22e9,
                    "socket": 16e9,
                    "nics": 1,
                    "nic": 11e9,
                    "latency": (8e-6, 20e-6),
                },
                NCCL,
                "a10",
                "PCIe 4.0 x16, two GPUs a switch, two sockets",
                protocols(PCIE),
            )
            for local in (4, 8)
        ),
        Machine(
            "2xt4",
            "cluster",
            {"node": "pcie", "local": 2, "pcie": 11e9, "socket": 9e9, "latency": (8e-6, 20e-6)},
            NCCL,
            "t4",
            "two T4s on PCIe 3.0 x16, as notebooks in a browser lend them",
            protocols(PCIE),
        ),
        Machine(
            "laptop",
            "loopback",
            {"bandwidth": 1 / LOOPBACK.beta, "cores": 2, "latency": (LOOPBACK.alpha, LOOPBACK.alpha)},
            replace(GLOO, cores=2),
            "",
            "gloo on loopback, measured on two cores with python -m collectives bench",
        ),
        Machine(
            "hosts",
            "cluster",
            {
                "node": "nvswitch",
                "local": 1,
                "nvlink": 1 / LOOPBACK.beta,
                "pcie": 10e9,
                "fabric": "switch",
                "nics": 1,
                "nic": 23.5e6,
                "latency": (LOOPBACK.alpha, 80e-6),
            },
            GLOO,
            "",
            "python -m sim hosts --rate 200mbit: TCP gets 0.94 of a port's rate through when both directions are busy "
            "(0.956 are not headers, and acknowledgements take 0.02); ranks of a host on loopback",
        ),
        Machine("rails", "cluster", {"fabric": "rails", "latency": (1e-6, 5e-6)}),
        Machine("fat-tree", "cluster", {"fabric": "fat-tree", "node": "nvswitch", "local": 1, "latency": (1e-6, 1e-6)}),
        Machine("dragonfly", "cluster", {"fabric": "dragonfly", "local": 1, "latency": (1e-6, 1e-6)}),
        *(Machine(kind, kind) for kind in ("line", "ring", "full", "switch", "torus", "loopback")),
    )
}


def find_machine(text: str, gpu: str = "") -> Machine:
    """The machine that ``NAME|FILE[,key=value…]`` names; a file is JSON, or what ``nvidia-smi topo -m`` prints.

    ``key`` is a parameter of the machine's kind, or one of ``base``, ``overhead`` (times) and ``gamma`` (0, or GB/s
    that a rank adds up).

    Raises:
        ValueError: an unknown name (the nearest are listed), a parameter that does not exist or make sense, a file
            that cannot be read (with its line).
    """
    name, *settings = text.split(",")
    if name in PRESETS:
        machine = with_gpu(PRESETS[name], gpu) if gpu else PRESETS[name]
    elif Path(name).is_file():
        from .machine_file import read_machine

        machine = read_machine(Path(name), gpu)
        if gpu:  # its links are what the file says
            machine = replace(machine, gpu=gpu_of(gpu).name)
    else:
        near = difflib.get_close_matches(name, PRESETS, n=3, cutoff=0.5) or list(PRESETS)
        raise ValueError(f"machine {name!r} is unknown: use {', '.join(near)}, or the name of a file")
    values = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not value:
            raise ValueError(f"machine {text!r}: {setting!r} should be key=value")
        values[key] = value
    return replace(changed(machine, values), name=text)


def with_gpu(machine: Machine, name: str) -> Machine:
    """The machine with other GPUs: NVLink and PCIe as fast as theirs.

    Raises:
        ValueError: an unknown GPU, one without NVLink where the machine needs it, or a machine without GPUs.
    """
    gpu = gpu_of(name)
    if gpu.name == machine.gpu:
        return machine
    parameters = dict(machine.parameters)
    node = parameters.get("node", "nvswitch")
    if machine.kind == "loopback":
        raise ValueError(f"gpu={name}: {machine.name} has no GPUs; leave it out")
    if machine.kind == "cluster" and parameters.get("local", 8) > 1:
        if node in ("nvswitch", "linked"):
            if not gpu.nvlinks:
                raise ValueError(f"gpu={name}: it has no NVLink, but {machine.name} needs it; take pcie-8")
            parameters["nvlink"] = gpu.nvlink * gpu.share * (gpu.nvlinks if node == "nvswitch" else 1)
        parameters["pcie"] = gpu.pcie
    return replace(machine, parameters=parameters, gpu=gpu.name, protocols=())
