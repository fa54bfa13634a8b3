"""Published benchmark rows against what presets predict: nothing is fitted to the rows, and none is dropped in silence.

A row says in words on what it was measured. ``machine_for`` finds the preset by general rules::

    GPU by name      A100 -> dgx-a100, V100 -> dgx-1v (above 8 a node: dgx-2), GB200 -> gb200-nvl72, T4 -> 2xt4, ...
    EFA              p4d, p5, p6-b200: AWS's network between the nodes (V100: 1 NIC of 100 Gb/s)
    8x400G, 4xHDR200 so many NICs of so many Gb/s, of which 0.94 are data
    MNNVL            all GPUs on one NVLink switch, whatever the nodes
    PCIe             PCIe switches instead of NVLink; NV4, "NVLink bridge": two GPUs joined by so many NVLinks
    P2P disabled     data go through host memory

and rows that fit none of them are counted as having no preset. How the rows were measured adds to every call: one
process that starts kernels on all GPUs (``-g 8``), and Python's own work in a benchmark written for torch.
"""

from __future__ import annotations

import csv
import io
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from collectives.contract import contract_of

from .gpu import GPUS
from .machine import Machine
from .nccl import Nccl
from .presets import PRESETS, find_machine
from .protocols import EFA, PCIE, VOLTA, protocols

REGIMES = {"small": (0, 1 << 20), "middle": (1 << 20, 1 << 28), "large": (1 << 28, 1 << 62)}  # from, below: bytes
BY_GPU = {
    "v100": "dgx-1v", "a100": "dgx-a100", "a800": "dgx-a800", "h100": "dgx-h100", "h200": "dgx-h200",
    "h20": "dgx-h20", "h800": "dgx-h800", "b200": "dgx-b200", "gb200": "gb200-nvl72", "mi300x": "mi300x",
    "t4": "2xt4", "a10": "pcie-4",
}  # fmt: skip
ON_EFA = {"a100": "p4d", "h100": "p5", "h200": "p5", "b200": "p6-b200"}
DATA = 0.94  # of a NIC's rate
LAUNCH = 2.5e-6  # for each GPU whose kernels one process starts (nccl-tests -g on 8 A100, two logs)
TORCH = 25e-6  # all_reduce_bench.py on torch, 8 B200
STAGED = 5.2e9  # bytes a second through host memory (4 A100, peer-to-peer access switched off)
BRIDGE_LINK = 12e9  # bytes a second of an NVLink of GA102 (NCCL's SM86_NVLINK_BW)
FEWEST = 5  # sizes, of which a line says something
COARSE = 0.1  # GB/s; a time that was computed from a smaller bandwidth of two decimals may be wrong by 5 %


@dataclass(frozen=True)
class Published:
    """One row. line: where it stands; size: bytes; busbw: GB/s; known: the algorithm, where the row knows it."""

    line: int
    system: str
    gpu: str
    nodes: int
    ranks: int
    collective: str
    size: int
    time_us: float
    busbw: float
    known: str
    words: str

    @property
    def regime(self) -> str:
        return next(name for name, (low, high) in REGIMES.items() if low <= self.size < high)

    @property
    def coarse(self) -> bool:
        """Whether its time is the quotient of a rounded bandwidth that says little."""
        return "derived" in self.words and self.busbw < COARSE


@dataclass(frozen=True)
class Compared:
    """A row and its prediction; ``way`` is NCCL's algorithm and protocol. Microseconds."""

    row: Published
    machine: str
    way: str
    predicted_us: float

    @property
    def error(self) -> float:
        return self.predicted_us / self.row.time_us - 1


@dataclass(frozen=True)
class Summary:
    """Of the errors of n rows: the median and nine-tenths of their sizes, and their middle with its sign."""

    n: int
    median: float
    p90: float
    bias: float


def read_published(text: str) -> list[Published]:
    """The rows of a CSV with gpu, ranks, size_bytes and time_us, and what else of nccl-tests' facts it has.

    Raises:
        ValueError: a column is missing, or a number makes no sense (with the line).
    """
    reader = csv.DictReader(io.StringIO(text))
    missing = [name for name in ("gpu", "ranks", "size_bytes", "time_us") if name not in (reader.fieldnames or ())]
    if missing:
        raise ValueError(
            f"line 1: the columns {', '.join(missing)} are missing; a row needs gpu, ranks, size_bytes, time_us"
        )
    rows = [_published(said, reader.line_num) for said in reader]
    if not rows:
        raise ValueError("there are no rows below the header")
    return rows


def _published(said: Mapping[str, str | None], line: int) -> Published:
    def number(name: str, default: str = "") -> float:
        text = said.get(name) or default
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value < 1e18:
            raise ValueError(f"line {line}: {name} {text!r} should be a number from 0 on")
        return value

    words = {name: said.get(name) or "" for name in ("system", "gpu", "placement", "note", "algorithm")}
    collective = (said.get("collective") or "all_reduce").replace("alltoall", "all_to_all")
    try:
        contract_of(collective)
    except ValueError as error:
        raise ValueError(f"line {line}: {error}") from None
    nodes, ranks, time = int(number("nodes", "1")), int(number("ranks")), number("time_us")
    if not time or not ranks or not nodes or ranks % nodes:
        raise ValueError(f"line {line}: {ranks} ranks on {nodes} nodes in {time} us: give as many ranks on every node")
    known = words["algorithm"].lower() if words["algorithm"].lower() in ("ring", "tree", "nvls") else ""
    system = words["system"] or f"{words['gpu']}, {ranks} ranks"
    return Published(
        line, system, words["gpu"], nodes, ranks, collective, int(number("size_bytes")), time,
        number("busbw_GBps", "0"), known, " ".join(words.values()).lower(),
    )  # fmt: skip


def machine_for(row: Published) -> Machine | None:
    """The preset that the row's words mean, changed as they say; None: there is none."""
    words = row.words
    bridge = re.search(r"\bnv(\d+)\b(?=.*bridge)|nvlink bridge", words)
    gpu = next(
        (name for name in sorted(BY_GPU, key=len, reverse=True) if re.search(rf"(?<![a-z]){name}\b", row.gpu.lower())),
        "",
    )
    if re.search(r"p2p disabled|host staging", words):
        parameters = {"node": "pcie", "local": row.ranks // row.nodes, "pcie": STAGED, "socket": STAGED}
        return (
            Machine("host memory", "cluster", parameters, gpu=gpu, protocols=protocols(PCIE))
            if row.nodes == 1
            else None
        )
    if bridge and row.ranks == 2 and (gpu or bridge[1]):
        links, link = (int(bridge[1]), BRIDGE_LINK) if bridge[1] else _nvlinks(gpu)
        parameters = {"node": "linked", "local": 2, "links": {(0, 1): links}, "nvlink": link}
        return Machine(
            "NVLink bridge", "cluster", parameters, gpu=gpu, protocols=PRESETS[BY_GPU.get(gpu, "pcie-4")].protocols
        )
    if not gpu:
        return None
    if "pcie" in words:
        return replace(find_machine(f"pcie-4,local={row.ranks // row.nodes}"), gpu=gpu)
    machine = PRESETS[ON_EFA.get(gpu, BY_GPU[gpu]) if re.search(r"\befa", words) else BY_GPU[gpu]]
    if gpu == "v100" and row.ranks // row.nodes > 8:
        machine = PRESETS["dgx-2"]
    if gpu == "v100" and re.search(r"\befa", words):
        machine = replace(machine, parameters={**machine.parameters, "nics": 1}, protocols=protocols(VOLTA, EFA))
    nics = re.search(r"\b(\d)x\s*(?:ndr|hdr|edr)?(\d{3})g?\b", words)
    if nics:
        said = {"nics": int(nics[1]), "nic": int(nics[2]) / 8 * 1e9 * DATA}
        machine = replace(machine, parameters={**machine.parameters, **said})
    return machine


def _nvlinks(gpu: str) -> tuple[int, float]:
    """A PCIe card has three bridges of four links at most."""
    return min(12, GPUS[gpu].nvlinks), GPUS[gpu].nvlink * GPUS[gpu].share


def measuring(row: Published) -> float:
    """Seconds that the way of measuring adds to every call."""
    single = re.search(r"-g (\d+)", row.words)
    return LAUNCH * int(single[1]) if single else TORCH if "torch" in row.words else 0.0


def compare(
    rows: Iterable[Published], machine: Machine | None = None
) -> tuple[list[Compared], list[tuple[Published, str]]]:
    """Every row's prediction, and the rows that have none, each with the reason.

    Args:
        machine: for all rows; by default the preset of each.

    Raises:
        ValueError: a machine without protocols.
    """
    if machine and not machine.protocols:
        raise ValueError(f"machine {machine.name} has no protocols: use a preset with GPUs, or calibrate one")
    known: dict[object, Nccl] = {}
    compared: list[Compared] = []
    without: list[tuple[Published, str]] = []
    for row in rows:
        chosen = machine or machine_for(row)
        if chosen is None:
            without.append((row, "no preset"))
            continue
        if row.coarse:
            without.append((row, "time derived from a rounded bandwidth"))
            continue
        nodes = 1 if "mnnvl" in row.words else row.nodes
        key = (chosen.name, repr(chosen.parameters), nodes, row.ranks)
        try:
            if key not in known:
                known[key] = Nccl(chosen, nodes, row.ranks)
            best = known[key].best(row.collective, row.size, row.known)
        except ValueError as error:
            without.append((row, str(error)))
            continue
        compared.append(Compared(row, chosen.name, best.name, (best.time_s + measuring(row)) * 1e6))
    return compared, without


def summary(compared: Sequence[Compared]) -> Summary | None:
    """None: of no rows."""
    if not compared:
        return None
    errors = sorted(abs(c.error) for c in compared)
    p90 = errors[min(len(errors) - 1, round(0.9 * (len(errors) - 1)))]
    return Summary(len(errors), statistics.median(errors), p90, statistics.median(c.error for c in compared))


@dataclass(frozen=True)
class Line:
    """The line α + size/β through the times of one system. alpha_us: α; beta: GB/s of the bus; mape: mean size of its
    errors, in percent; busbw, predicted_busbw: GB/s of the largest size, measured and from the preset's own links."""

    system: str
    n: int
    alpha_us: float
    beta: float
    mape: float
    busbw: float
    predicted_busbw: float


def lines(compared: Iterable[Compared]) -> list[Line]:
    """Of every system and collective of which ``FEWEST`` sizes were measured: the line whose squared relative errors
    are least. What no line fits has steps (a change of algorithm) or noise."""
    found = []
    for own in _by_system(compared):
        if len({one.row.size for one in own}) < FEWEST:
            continue
        points = [(one.row.size, one.row.time_us) for one in own]
        weights = [1 / time**2 for _, time in points]
        w, x, t, xx, xt = (
            sum(weight * value for weight, value in zip(weights, column, strict=True))
            for column in zip(*((1.0, s, time, s * s, s * time) for s, time in points), strict=True)
        )
        slope = (w * xt - x * t) / (w * xx - x * x)
        alpha = (t - slope * x) / w
        largest = max(own, key=lambda one: one.row.size)
        factor = largest.row.busbw * largest.row.time_us / largest.row.size  # of the bus's bytes to the call's
        mape = statistics.fmean(abs((alpha + slope * size) / time - 1) for size, time in points)
        found.append(
            Line(
                largest.row.system,
                len(own),
                alpha,
                factor / slope if slope > 0 else 0.0,
                100 * mape,
                largest.row.busbw,
                factor * largest.row.size / largest.predicted_us,
            )
        )
    return found


def _by_system(compared: Iterable[Compared]) -> Iterable[list[Compared]]:
    groups: dict[tuple[str, str], list[Compared]] = {}
    for one in compared:
        groups.setdefault((one.row.system, one.row.collective), []).append(one)
    return groups.values()
