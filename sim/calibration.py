"""A machine from measured times: its constants, how well they are known, and how well they predict.

``calibrate`` takes the runs of logs (nccl-tests, or this project's own benchmark), fits what they determine, and names
what they do not: one number of ranks cannot tell a fixed cost from one for each hop, a run inside one node says
nothing of NICs, large messages nothing of latency. Those constants stay where the starting machine has them.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from collectives.contract import CONTRACTS, contract_of
from collectives.readers.measured_run import Run, Timing

from .machine import Machine
from .nccl import Nccl
from .presets import PRESETS
from .protocols import AMPERE, protocols
from .validation import BY_GPU

LARGE = 64 << 20  # bytes; from here on bandwidth decides
DISTURBED = 1.2  # of two times of a row the larger one is not believed if it is so much larger


@dataclass(frozen=True)
class Sample:
    """One measured time, in seconds; size: bytes of the whole buffer; algorithm: empty where NCCL has chosen it."""

    collective: str
    algorithm: str
    nodes: int
    ranks: int
    size: int
    time_s: float

    @property
    def busbw(self) -> float:
        """Bytes a second."""
        return self.size * contract_of(self.collective).factor(self.ranks) / self.time_s


@dataclass(frozen=True)
class Constant:
    """One of the machine's constants; unit is us, GB/s or nothing; known: the times determine it."""

    name: str
    value: float
    unit: str
    known: bool


@dataclass(frozen=True)
class Calibration:
    """machine: the fitted one; predicted, left_out: seconds for each sample, and by a fit without it; undetermined:
    what the samples do not tell; notes: what was assumed."""

    machine: Machine
    constants: tuple[Constant, ...]
    samples: tuple[Sample, ...]
    predicted: tuple[float, ...]
    left_out: tuple[float, ...]
    undetermined: tuple[str, ...]
    notes: tuple[str, ...]

    def errors(self, left_out: bool = False) -> tuple[float, float]:
        """Median and largest relative error."""
        found = [
            abs(p / s.time_s - 1)
            for p, s in zip(self.left_out if left_out else self.predicted, self.samples, strict=True)
        ]
        return statistics.median(found), max(found)


def samples_of(
    runs: Sequence[Run], nodes: int | None = None, ranks: int | None = None
) -> tuple[list[Sample], list[str]]:
    """The times in runs, and what had to be assumed.

    Args:
        nodes, ranks: of runs that do not say.

    Raises:
        ValueError: runs that do not say how many ranks or which collective, nodes with unequally many ranks, no time.
    """
    samples, notes = [], []
    for run in runs:
        count = run.ranks or ranks
        if run.collective not in CONTRACTS:
            raise ValueError("the log does not say which collective it times: --collective says it")
        if not count:
            raise ValueError("the log does not say how many ranks it has: --ranks says it")
        hosts = len(run.hosts) or nodes or 1
        if not run.hosts and nodes is None:
            notes.append(f"on which hosts the {count} ranks are is not said: one node is assumed (--nodes says it)")
        if count % hosts:
            raise ValueError(f"{count} ranks on {hosts} nodes: every node should have as many")
        for row in run.rows:
            if row.size and row.timings:
                low, high = min(row.timings, key=_time).time_us, max(row.timings, key=_time).time_us
                seconds = (low if high > DISTURBED * low else (low + high) / 2) / 1e6
                if seconds > 0:
                    samples.append(Sample(run.collective, run.algorithm or "", hosts, count, row.size, seconds))
    if not samples:
        raise ValueError("there is no time above 0 for more than 0 bytes")
    return samples, list(dict.fromkeys(notes))


def _time(timing: Timing) -> float:
    return timing.time_us


def start_of(gpu: str, local: int) -> tuple[Machine, str]:
    """The machine that a fit starts from, for GPUs by name; and what was assumed about it, if anything."""
    words = gpu.lower().replace("-", " ").split()
    name = next((preset for known, preset in BY_GPU.items() if known in words), "")
    preset = PRESETS[name] if name else Machine("switch", "cluster", PRESETS["dgx-a100"].parameters)
    known = bool(name) and "pcie" not in words
    if known and preset.parameters["node"] == "linked" and local <= preset.parameters["local"]:
        return preset, ""
    parameters = {**preset.parameters, "local": max(local, 1)}
    if known and parameters["node"] != "linked":
        return replace(preset, parameters=parameters), ""
    parameters = {**PRESETS["dgx-a100"].parameters, "local": max(local, 1)}
    note = f"how {gpu or 'the GPUs'} are joined is not known: one switch for all of a node is assumed"
    return Machine("switch", "cluster", parameters, protocols=protocols(AMPERE)), note


def disagreements(samples: Sequence[Sample], machine: Machine) -> list[str]:
    """Where measured bandwidths do not fit the links of a machine, as a topology or a preset tells them."""
    found = []
    preset = PRESETS[BY_GPU[machine.gpu]] if machine.gpu in BY_GPU else machine
    ways = preset.protocols if machine.parameters.get("node") == "nvswitch" else protocols(AMPERE)
    machine = replace(machine, protocols=machine.protocols or ways or protocols(AMPERE))
    for nodes, ranks in dict.fromkeys((s.nodes, s.ranks) for s in samples if s.size >= LARGE):
        best = max((s for s in samples if (s.nodes, s.ranks) == (nodes, ranks)), key=lambda s: s.busbw)
        where = f"{ranks} ranks on {nodes} node{'s' * (nodes > 1)}"
        try:
            nccl = Nccl(machine, nodes, ranks)
            estimate = nccl.best(best.collective, best.size)
        except ValueError as error:
            found.append(f"{where} do not fit the topology: {error}")
            continue
        links = best.size * contract_of(best.collective).factor(ranks) / estimate.transfer_s
        said = (
            f"{where}: {best.collective} reached {best.busbw / 1e9:.4g} GB/s busbw, the links carry {links / 1e9:.4g}"
        )
        if best.busbw > 1.15 * links:
            found.append(f"{said}: there are faster links than the topology says, or its GPU is another (--gpu)")
        elif best.busbw < 0.5 * links:
            nvlink = "nvlink" in machine.parameters and machine.parameters.get("node") != "pcie" and nodes == 1
            why = "as if through PCIe or host memory, not NVLink" if nvlink else "some of them were not used"
            found.append(f"{said}: {why}")
    return found
