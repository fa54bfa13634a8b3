"""The functions of lesson 31: a line of the benchmark, a ring that a host launches, rings over links, and a verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations, permutations
from math import factorial

from collectives.contract import contract_of
from collectives.cost import Machine, predict
from collectives.registry import find
from sim.nodes import CUBE_MESH
from sim.rings import arcs_of, cycles, hops, pack

from ..reference import Example, Reference

Links = Sequence[Sequence[int]]


def _factor(ranks: int) -> float:
    return contract_of("all_reduce").factor(ranks)


def _busbw(ranks: int, nbytes: int, time_us: float) -> float:
    return nbytes / (time_us * 1e-6) / 1e9 * _factor(ranks)


# The ring.


def _ring_on_nccl(
    ranks: int, nbytes: int, launch: float, alpha: float, beta: float, gamma: float, channels: int, graph: bool
) -> float:
    machine = Machine(alpha, beta, gamma, base=launch * graph, launch=launch * (not graph))
    return predict(find("all_reduce", f"ring:channels={channels}"), ranks, nbytes, machine)


def _launched(
    ranks: int,
    nbytes: int,
    launch: float,
    alpha: float,
    beta: float,
    gamma: float,
    channels: int,
    graph: bool,
    *,
    fault: str = "",
) -> float:
    """The same, written down as a learner would; ``fault``: what is mistaken in it."""
    steps = {"one_walk": ranks - 1, "n_steps": 2 * ranks}.get(fault, 2 * (ranks - 1))
    adding = {"adds_always": steps, "never_adds": 0}.get(fault, ranks - 1)
    share = nbytes / ranks / (1 if fault == "whole_chunk" else channels)
    host = launch if graph and fault != "graph_free" else 0.0
    wires, adders, ready = [0.0] * channels, [0.0] * channels, [0.0] * channels
    for step in range(steps):
        for channel in range(channels):
            if (not graph or fault == "graph_ignored") and not (fault == "launch_a_step" and channel):
                host += launch
            wire = channel if fault == "own_wires" else 0
            adder = channel if fault == "own_adders" else 0
            before = ready[channel - 1] if fault == "one_after_the_other" else 0.0
            if fault == "launch_waits":
                host = max(host, ready[channel] + (0 if graph else launch))
            start = max(ready[channel], wires[wire], host, before)
            wires[wire] = start + share * beta + (alpha if fault == "alpha_on_the_wire" else 0.0)
            ready[channel] = start + share * beta + alpha
            if step < adding:
                ready[channel] = max(ready[channel], adders[adder]) + share * gamma
                adders[adder] = ready[channel]
    return max(ready)


_RING_FAULTS = (
    "one_walk",
    "n_steps",
    "adds_always",
    "never_adds",
    "whole_chunk",
    "graph_free",
    "graph_ignored",
    "launch_a_step",
    "own_wires",
    "own_adders",
    "one_after_the_other",
    "launch_waits",
    "alpha_on_the_wire",
)


_US, _MIB = 1e-6, 1 << 20
_RING = Reference(
    examples=(
        (2, 64 * _MIB, 0.0, 10 * _US, 1 / 100e9, 1 / 1000e9, 1, False),
        (8, 64 << 10, 30 * _US, 8 * _US, 1 / 200e9, 1 / 1000e9, 1, False),
        (8, 64 << 10, 30 * _US, 8 * _US, 1 / 200e9, 1 / 1000e9, 2, False),
        (8, 64 << 10, 30 * _US, 8 * _US, 1 / 200e9, 1 / 1000e9, 1, True),
        (4, 256 * _MIB, 30 * _US, 8 * _US, 1 / 200e9, 1 / 800e9, 1, False),
        (4, 256 * _MIB, 30 * _US, 8 * _US, 1 / 200e9, 1 / 800e9, 2, False),
        (4, 256 * _MIB, 30 * _US, 8 * _US, 1 / 200e9, 1 / 800e9, 2, True),
        (2, 64 * _MIB, 5 * _US, 2 * _US, 1 / 400e9, 1 / 300e9, 2, True),
        (5, 8 * _MIB, 10 * _US, 20 * _US, 1 / 100e9, 1 / 500e9, 3, False),
    ),
    answer=_ring_on_nccl,
    mistakes={
        **{f"gpu_day.ring_on_nccl.{fault}": partial(_launched, fault=fault) for fault in _RING_FAULTS},
        "gpu_day.ring_on_nccl.no_launch": lambda n, s, h, a, b, c, k, g: _ring_on_nccl(n, s, 0.0, a, b, c, k, g),
        "gpu_day.ring_on_nccl.no_alpha": lambda n, s, h, a, b, c, k, g: _ring_on_nccl(n, s, h, 0.0, b, c, k, g),
        "gpu_day.ring_on_nccl.launch_once": lambda n, s, h, a, b, c, k, g: _ring_on_nccl(n, s, h, a, b, c, k, True),
        "gpu_day.ring_on_nccl.no_channels": lambda n, s, h, a, b, c, k, g: _ring_on_nccl(n, s, h, a, b, c, 1, g),
    },
)


# Rings over links.


def _matrix(gpus: Sequence[int], links: Mapping[tuple[int, int], int] = CUBE_MESH) -> list[list[int]]:
    return [[links.get((min(a, b), max(a, b)), 0) for b in gpus] for a in gpus]


def _arcs(links: Links) -> dict[tuple[int, int], int]:
    return arcs_of({(a, b): links[a][b] for a, b in combinations(range(len(links)), 2)}, range(len(links)))


def _rings_of(links: Links) -> int:
    return len(pack(_arcs(links), range(len(links))))


def _one_by_one(links: Links) -> int:
    """Rings that are taken as they come, each as often as it fits."""
    left, taken = Counter(_arcs(links)), 0
    for order in sorted(cycles(_arcs(links), range(len(links)))):
        times = min(left[arc] for arc in hops(order))
        for arc in hops(order):
            left[arc] -= times
        taken += times
    return taken


def _half_duplex(links: Links) -> int:
    """The most rings where a link carries one direction only."""
    every = [(0, *rest) for rest in permutations(range(1, len(links)))]

    def most(left: Counter[tuple[int, ...]], first: int) -> int:
        best = 0
        for place in range(first, len(every)):
            used = Counter(tuple(sorted(arc)) for arc in hops(every[place]))
            if all(left[pair] >= times for pair, times in used.items()):
                best = max(best, 1 + most(left - used, place))
        return best

    return most(Counter({pair: links[pair[0]][pair[1]] for pair in combinations(range(len(links)), 2)}), 0)


def _one_way_round(links: Links) -> int:
    """The most rings where a ring and its reverse count as one and the same."""
    every = [order for order in cycles(_arcs(links), range(len(links))) if order[1] <= order[-1]]

    def most(left: Counter[tuple[int, int]], first: int) -> int:
        best = 0
        for place in range(first, len(every)):
            used = Counter(hops(every[place]))
            if used <= left:
                best = max(best, 1 + most(left - used, place))
        return best

    return most(Counter(_arcs(links)), 0)


def _best_alone(links: Links) -> int:
    """The one ring that fits most often."""
    arcs = _arcs(links)
    return max((min(arcs[arc] for arc in hops(order)) for order in cycles(arcs, range(len(links)))), default=0)


_RINGS = Reference(
    examples=(
        (_matrix((0, 1)),),
        (_matrix((0, 3)),),
        (_matrix((0, 1, 2)),),
        (_matrix((0, 1, 2, 3)),),
        (_matrix((0, 1, 2, 3, 4)),),
        (_matrix((0, 1, 4, 5)),),
        (_matrix((0, 2, 4, 6)),),
        (_matrix((0, 5)),),
        ([[0, 2, 2, 3], [2, 0, 2, 3], [2, 2, 0, 2], [3, 3, 2, 0]],),
        ([[0, 3, 2, 3], [3, 0, 1, 2], [2, 1, 0, 1], [3, 2, 1, 0]],),
        ([[0, 3, 0, 1], [3, 0, 1, 0], [0, 1, 0, 3], [1, 0, 3, 0]],),
    ),
    answer=_rings_of,
    mistakes={
        "gpu_day.rings_of.one_by_one": _one_by_one,
        "gpu_day.rings_of.half_duplex": _half_duplex,
        "gpu_day.rings_of.one_way_round": _one_way_round,
        "gpu_day.rings_of.best_alone": _best_alone,
        "gpu_day.rings_of.both_ways": lambda links: 2 * _best_alone(links),
        "gpu_day.rings_of.least_degree": lambda links: min(map(sum, links)),
        "gpu_day.rings_of.mean_degree": lambda links: sum(map(sum, links)) // len(links),
        "gpu_day.rings_of.half_degree": lambda links: min(map(sum, links)) // 2,
        "gpu_day.rings_of.different": lambda links: len(list(cycles(_arcs(links), range(len(links))))),
        "gpu_day.rings_of.all_orders": lambda links: factorial(len(links) - 1),
        "gpu_day.rings_of.any_ring": lambda links: min(1, _rings_of(links)),
        "gpu_day.rings_of.in_order": lambda links: min(links[a - 1][a] for a in range(len(links))),
        "gpu_day.rings_of.links": lambda links: sum(map(sum, links)) // 2,
    },
)


# What may be said.

YES, NO, UNKNOWN = "yes", "no", "unknown"


def _is_faster(baseline: str, ratio: float, null: float) -> str:
    if baseline != "native" or abs(ratio - 1) <= abs(null - 1):
        return UNKNOWN
    return YES if ratio < 1 else NO


def _same_word(value: object, other: object, example: Example) -> bool:
    return isinstance(value, str) and value == other


def _compared(ratio: float, threshold: float = 1.0) -> str:
    return YES if ratio < threshold else NO


def _native(baseline: str, said: str) -> str:
    return said if baseline == "native" else UNKNOWN


_VERDICT = Reference(
    examples=(
        ("native", 0.80, 1.02),
        ("native", 1.30, 1.02),
        ("native", 0.97, 1.05),
        ("native", 1.03, 0.94),
        ("native", 0.97, 0.94),
        ("native", 1.04, 1.06),
        ("native", 0.90, 0.93),
        ("native", 1.02, 1.00),
        ("native", 0.98, 1.00),
        ("native", 1.07, 0.95),
        ("native", 0.93, 1.10),
        ("nccl-ring-simple", 0.80, 1.02),
        ("nccl-ring", 0.70, 1.00),
        ("nccl-ring", 1.40, 1.00),
        ("wire", 1.20, 1.00),
        ("gloo-2", 0.90, 1.01),
    ),
    answer=_is_faster,
    kind="word",
    same=_same_word,
    mistakes={
        "gpu_day.is_faster.forced": lambda b, r, z: _is_faster("native", r, z),
        "gpu_day.is_faster.forced_rings": lambda b, r, z: _is_faster("native" if "nccl" in b else b, r, z),
        "gpu_day.is_faster.no_null": lambda b, r, z: _native(b, _compared(r)),
        "gpu_day.is_faster.neither": lambda b, r, z: _compared(r),
        "gpu_day.is_faster.upside_down": lambda b, r, z: {YES: NO, NO: YES}.get(_is_faster(b, r, z), UNKNOWN),
        "gpu_day.is_faster.beside_null": lambda b, r, z: _native(b, _compared(r, z)),
        "gpu_day.is_faster.one_side": lambda b, r, z: _native(b, UNKNOWN if abs(r - 1) <= z - 1 else _compared(r)),
        "gpu_day.is_faster.noise_is_no": lambda b, r, z: (
            NO if b == "native" and _is_faster(b, r, z) == UNKNOWN else _is_faster(b, r, z)
        ),
        "gpu_day.is_faster.never_no": lambda b, r, z: YES if _is_faster(b, r, z) == YES else UNKNOWN,
        "gpu_day.is_faster.fixed": lambda b, r, z: _native(b, UNKNOWN if abs(r - 1) <= 0.05 else _compared(r)),
        "gpu_day.is_faster.forced_is_no": lambda b, r, z: _is_faster(b, r, z) if b == "native" else NO,
    },
)


GPU_DAY: Mapping[str, Reference] = {
    "busbw": Reference(
        examples=((2, 1 << 30, 48_000.0), (4, 1 << 30, 18_869.0), (8, 65_536, 787.4), (3, 1000, 1.0)),
        answer=_busbw,
        mistakes={
            "gpu_day.busbw.algbw": lambda n, s, t: s / t / 1e3,
            "gpu_day.busbw.one_walk": lambda n, s, t: s / t / 1e3 * (n - 1) / n,
            "gpu_day.busbw.steps": lambda n, s, t: s / t / 1e3 * 2 * (n - 1),
            "gpu_day.busbw.twice": lambda n, s, t: s / t / 1e3 * 2,
            "gpu_day.busbw.seconds": lambda n, s, t: s / t / 1e9 * _factor(n),
            "gpu_day.busbw.milliseconds": lambda n, s, t: s / t / 1e6 * _factor(n),
            "gpu_day.busbw.binary": lambda n, s, t: _busbw(n, s, t) * 1e9 / 2**30,
            "gpu_day.busbw.bits": lambda n, s, t: _busbw(n, s, t) * 8,
            "gpu_day.busbw.divided": lambda n, s, t: s / t / 1e3 / _factor(n),
        },
    ),
    "of_wire": Reference(
        examples=((787.4, 598.2), (1977.3, 1269.6), (30_712.0, 27_038.0), (10.0, 10.0)),
        answer=lambda time_us, wire_us: wire_us / time_us,
        mistakes={
            "gpu_day.of_wire.upside_down": lambda time_us, wire_us: time_us / wire_us,
            "gpu_day.of_wire.rest": lambda time_us, wire_us: 1 - wire_us / time_us,
            "gpu_day.of_wire.over_wire": lambda time_us, wire_us: time_us / wire_us - 1,
            "gpu_day.of_wire.difference": lambda time_us, wire_us: time_us - wire_us,
            "gpu_day.of_wire.percent": lambda time_us, wire_us: 100 * wire_us / time_us,
            "gpu_day.of_wire.of_both": lambda time_us, wire_us: wire_us / (time_us + wire_us),
        },
    ),
    "ring_on_nccl": _RING,
    "rings_of": _RINGS,
    "is_faster": _VERDICT,
}
