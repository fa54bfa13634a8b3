"""The numbers of lesson 31: a DGX-1V's rings, and a ring whose steps a host launches; measurements say whose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from collectives.contract import contract_of
from collectives.cost import Machine, predict
from collectives.registry import find
from collectives.span import Span
from lessons.figures.plot import Data
from sim.nccl import Nccl, bus_bandwidth
from sim.nodes import CUBE_MESH
from sim.presets import find_machine
from sim.rings import arcs_of, pack
from sim.units import show_bytes, show_time

# GB/s of bus bandwidth that NCCL's all-reduce reached on the first GPUs of a DGX-1V with large buffers: measured by the
# authors of vTrain (arXiv 2312.12391), in the tables that they published with it
MEASURED = {2: 22.6, 3: 45.0, 4: 85.0, 5: 37.0, 6: 46.0, 7: 88.0, 8: 135.0}
LARGE = 1 << 30

# a line of the benchmark, on four ranks over gloo (README.md): bytes, and microseconds of the ring and of its wire
LINE_RANKS, LINE_BYTES, LINE_US, WIRE_US, LINE_RATIO, LINE_NULL = 4, 1 << 20, 1977.3, 1269.6, 0.92, 0.98
LINE_OF_WIRE = 0.70  # as printed: the median of the rounds' ratios

# eight GPUs behind switches; what a host needs for a group of messages is of the size that Python takes
RANKS, LAUNCH = 8, 30e-6
GPU = Machine(alpha=8e-6, beta=1 / 200e9, gamma=1 / 800e9)
SMALL, BIG = 64 << 10, 256 << 20

# ratios and nulls of the questions
FORCED, NATIVE, QUIET = 0.80, 1.15, 1.01
RUNS = ((0.97, 1.05), (0.96, 1.04))

DRAWN = Machine(alpha=1.0, beta=1.0, gamma=0.5)  # of the timetables, in slots


def facts() -> dict[str, str | int | float]:
    """See ``lesson31.toml``."""
    ratio = _seconds(5) / _seconds(4)
    cube = find_machine("dgx-1v")
    computed = {gpus: Nccl(cube, 1, gpus).best("all_reduce", LARGE).time_s for gpus in (4, 5)}
    known: dict[str, str | int | float] = {
        "large": show_bytes(LARGE),
        "measured_4": f"{MEASURED[4]:g} GB/s",
        "measured_5": f"{MEASURED[5]:g} GB/s",
        "measured_8": f"{MEASURED[8]:g} GB/s",
        "time_4": show_time(_seconds(4)),
        "ratio_computed": f"{computed[5] / computed[4]:.2f}",
        "ratio_measured": f"{ratio:.2f}",
        "nvlink": f"{cube.parameters['nvlink'] / 1e9:g} GB/s",
        "line_ranks": LINE_RANKS,
        "line_bytes": show_bytes(LINE_BYTES),
        "line_us": LINE_US,
        "wire_us": WIRE_US,
        "line_algbw": f"{LINE_BYTES / LINE_US / 1e3:.3f}",
        "line_busbw": f"{LINE_BYTES / LINE_US / 1e3 * _factor(LINE_RANKS):.3f}",
        "line_of_wire": f"{WIRE_US / LINE_US:.2f}",
        "line_of_wire_printed": f"{LINE_OF_WIRE:.2f}",
        "line_ratio": f"{LINE_RATIO:.2f}",
        "line_null": f"{LINE_NULL:.2f}",
        "line_noise": f"{abs(LINE_NULL - 1):.0%}",
        "line_gain": f"{1 - LINE_RATIO:.0%}",
        "ranks": RANKS,
        "steps": 2 * (RANKS - 1),
        "launch": show_time(LAUNCH),
        "alpha": show_time(GPU.alpha),
        "beta": f"1/({1 / GPU.beta / 1e9:g} GB/s)",
        "gamma": f"1/({1 / GPU.gamma / 1e9:g} GB/s)",
        "small": show_bytes(SMALL),
        "big": show_bytes(BIG),
        "rings_4": rings_of(4),
        "rings_8": rings_of(8),
        "predict_answer": round(ratio, 2),
        "predict_tolerance": 0.15,
    }
    for name, nbytes in (("small", SMALL), ("big", BIG)):
        for channels in (1, 2):
            for graph in (False, True):
                known[f"{name}_{channels}_{'graph' if graph else 'host'}"] = show_time(_ring(nbytes, channels, graph))
    return known | {
        "calculate_1_answer": round(rings_of(8) * cube.parameters["nvlink"] / 1e9, 1),
        "calculate_1_tolerance": 0.03,
        "calculate_2_answer": round((2 * (RANKS - 1) - 1) * (LAUNCH - _step()) * 1e6, 1),
        "calculate_2_tolerance": 0.05,
        "forced_ratio": f"{FORCED:.2f}",
        "forced_gain": f"{1 - FORCED:.0%}",
        "native_ratio": f"{NATIVE:.2f}",
        "quiet_null": f"{QUIET:.2f}",
        "first_ratio": f"{RUNS[0][0]:.2f}",
        "first_null": f"{RUNS[0][1]:.2f}",
        "second_ratio": f"{RUNS[1][0]:.2f}",
        "second_null": f"{RUNS[1][1]:.2f}",
        "wrong_gain": f"{1 - RUNS[0][0] / RUNS[0][1]:.0%}",
        "step": show_time(_step()),
        "between": 2 * (RANKS - 1) - 1,
    }


def _factor(ranks: int) -> float:
    return contract_of("all_reduce").factor(ranks)


def _seconds(gpus: int) -> float:
    """Of an all-reduce of ``LARGE``, from the bus bandwidth that was measured."""
    return LARGE * _factor(gpus) / (MEASURED[gpus] * 1e9)


def rings_of(gpus: int) -> int:
    """Rings through the first GPUs of a DGX-1V."""
    return len(pack(arcs_of(CUBE_MESH, range(gpus)), range(gpus)))


def _ring(nbytes: int, channels: int, graph: bool) -> float:
    machine = replace(GPU, base=LAUNCH * graph, launch=LAUNCH * (not graph))
    return predict(find("all_reduce", f"ring:channels={channels}"), RANKS, nbytes, machine)


def _step() -> float:
    """Seconds of a step of a tiny buffer on the device."""
    return GPU.alpha


def cube() -> Data:
    """Bus bandwidth over the number of GPUs: from the links, and measured."""
    machine = find_machine("dgx-1v,latency=0")
    links = [bus_bandwidth(machine.network(1, gpus)) / 1e9 for gpus in MEASURED]
    return Data(list(MEASURED), {"cube_links": links, "measured": list(MEASURED.values())})


def one_channel() -> Sequence[Span]:
    """Two ranks, one channel: transfers and additions wait for each other."""
    return _spans(1)


def two_channels() -> Sequence[Span]:
    """The same data in two channels: one adds while the other sends."""
    return _spans(2)


def slow_host() -> Sequence[Span]:
    """A host that needs longer to launch a step than the device for it."""
    return _spans(1, launch=7.0)


def _spans(channels: int, launch: float = 0.0, ranks: int = 3, whole: float = 4.0) -> Sequence[Span]:
    """Wire, adder and host of one rank; a chunk takes ``whole`` on the wire and half of it on the adder."""
    spans, part = list[Span](), whole / channels
    host = wire = adder = 0.0
    ready = [0.0] * channels
    for step in range(2 * (ranks - 1)):
        for channel in range(channels):
            name = f"{step}" if channels == 1 else f"{step}{'ab'[channel]}"
            if launch:
                spans.append(Span(2, "compute", f"launch {name}", host, host + launch))
            host += launch
            start = max(host, wire, ready[channel])
            wire = start + part * DRAWN.beta
            spans.append(Span(0, "compute", f"send {name}", start, wire))
            ready[channel] = wire + DRAWN.alpha
            if step < ranks - 1:
                begin = max(ready[channel], adder)
                ready[channel] = adder = begin + part * DRAWN.gamma
                spans.append(Span(1, "compute", f"reduce {name}", begin, adder))
    return spans
