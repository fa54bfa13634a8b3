"""A machine from a topology matrix: NVLinks, and the tree of PCIe switches, host bridges and sockets below them.

The matrix says how near two devices are, which gives a tree (PIX within PXB within PHB within NODE within SYS), and how
many NVLinks join two GPUs. It says neither how fast a link is nor which GPU it is; what has to be assumed is said.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations

from collectives.readers.topo_matrix import TopoMatrix

from .gpu import GPUS, Gpu, gpu_of
from .machine import Machine

FROM_MATRIX = "nvidia-smi topo -m"  # a machine's source
LEVELS = ("PIX", "PXB", "PHB", "NODE", "SYS")
MOST_NVLINKS = 18  # of a GPU, up to now
UNKNOWN_LINK, UNKNOWN_PCIE = GPUS["a100"], 22e9


def machine_of(matrix: TopoMatrix, name: str, gpu: str = "") -> tuple[Machine, list[str]]:
    """The machine, and what had to be assumed about it.

    Raises:
        ValueError: a GPU that is not known (the known ones are listed).
    """
    known = gpu_of(gpu) if gpu else None
    notes: list[str] = []
    count = len(matrix.gpus)
    links = {
        (a, b): number
        for (a, one), (b, other) in combinations(enumerate(matrix.gpus), 2)
        if (number := matrix.links(one, other))
    }
    parameters: dict[str, object] = {"local": count, "node": "alone"}
    switched = _is_switched(matrix, links)
    if known is None and (known := _likely(links, switched)):
        notes.append(f"by their NVLinks, these GPUs are taken for {known.name}; --gpu says it")
    link = known or UNKNOWN_LINK
    if links:
        if known is None:
            notes.append(
                f"the speed of an NVLink depends on the GPU: {link.nvlink / 1e9:.3g} GB/s a link and direction is "
                "assumed (V100 to H200; B200: 50); --gpu says it"
            )
        speed = link.nvlink * link.share
        if switched:
            number = min(links.values())
            parameters |= {"node": "nvswitch", "nvlink": number * speed}
            notes.append(
                f"{number} NVLinks to each of {count - 1} GPUs are more than a GPU has: they lead to NVSwitches, "
                "so all GPUs are joined at that speed"
            )
        else:
            parameters |= {"node": "linked", "links": links, "nvlink": speed}
    pcie = known.pcie if known else UNKNOWN_PCIE
    levels = _levels(matrix, pcie)
    if known is None and levels:
        notes.append(f"{pcie / 1e9:.3g} GB/s a PCIe slot is assumed (4.0 x16; 3.0: 11, 5.0: 48); --gpu says it")
    if levels:
        parameters["levels"] = levels
    near = [nic for nic in matrix.nics if any(matrix.cells.get((gpu, nic)) in ("PIX", "PXB") for gpu in matrix.gpus)]
    if matrix.nics:
        parameters["nics"] = min(len(near or matrix.nics), count)
        if near:
            where = f"next to a GPU, below the same PCIe switch: {', '.join(near[:8])}{', …' if near[8:] else ''}"
        else:
            where = "none is below a PCIe switch with a GPU, so all are taken"
        notes.append(f"NICs: {where}; their speed is not in the matrix: nic=… says it")
    notes += _unknown(matrix)
    machine = Machine(name, "cluster", parameters, gpu=known.name if known else "", source=FROM_MATRIX)
    return machine, notes


def _is_switched(matrix: TopoMatrix, links: dict[tuple[int, int], int]) -> bool:
    """Whether NVLinks lead to switches: all pairs are joined by equally many, and by more than a GPU has in all."""
    pairs = combinations(range(len(matrix.gpus)), 2)
    seen = [pair for pair in pairs if (matrix.gpus[pair[0]], matrix.gpus[pair[1]]) in matrix.cells]
    alike = len(set(links.values())) == 1 and all(pair in links for pair in seen)
    return alike and (len(matrix.gpus) - 1) * min(links.values()) > MOST_NVLINKS


def _likely(links: dict[tuple[int, int], int], switched: bool) -> Gpu | None:
    """The GPU that has so many NVLinks in all (of 18, the oldest). Below 6 they may be any card's, but only V100s in a
    cube mesh have pairs with one and pairs with two."""
    if set(links.values()) == {1, 2}:
        return GPUS["v100"]
    of: Counter[int] = Counter()
    for (a, b), number in links.items():
        of.update({a: number, b: number})
    most = max(links.values() if switched else of.values(), default=0)
    return next((gpu for gpu in GPUS.values() if gpu.nvlinks == most), None) if most >= 6 else None


def _levels(matrix: TopoMatrix, pcie: float) -> tuple[tuple[str, tuple[tuple[int, ...], ...], float], ...]:
    """The tree from the nearest level up: at each, the groups of GPUs that it joins."""
    count = len(matrix.gpus)
    groups = [{i} for i in range(count)]
    levels: list[tuple[str, tuple[tuple[int, ...], ...], float]] = []
    for depth, level in enumerate(LEVELS):
        for a, b in combinations(range(count), 2):
            if _nearness(matrix, a, b) <= depth:
                one = next(group for group in groups if a in group)
                other = next(group for group in groups if b in group)
                if one is not other:
                    one |= other
                    groups.remove(other)
        joined = tuple(tuple(sorted(group)) for group in groups if len(group) > 1)
        if joined and (not levels or levels[-1][1] != joined):
            levels.append((level.lower(), joined, pcie))
    return tuple(levels)


def _nearness(matrix: TopoMatrix, a: int, b: int) -> int:
    """Which level joins two GPUs; through NVLink's cells the PCIe below cannot be seen, only the NUMA node."""
    one, other = matrix.gpus[a], matrix.gpus[b]
    cell = matrix.cells.get((one, other), "SYS").replace("SOC", "SYS")
    if cell in LEVELS:
        return LEVELS.index(cell)
    home = matrix.numa.get(one) or matrix.cpu_affinity.get(one)
    return LEVELS.index(
        "NODE" if home and home == (matrix.numa.get(other) or matrix.cpu_affinity.get(other)) else "SYS"
    )


def _unknown(matrix: TopoMatrix) -> list[str]:
    missing = sum((a, b) not in matrix.cells for a, b in combinations(matrix.gpus, 2))
    return [f"{missing} pairs of GPUs are not in the matrix: taken as joined through the sockets"] if missing else []
