"""NCCL's constants from measured times: a protocol for each regime, and the speed of the links.

Every regime is one robust linear fit over all samples in it, whatever their collective, ranks and nodes::

    time = base + hops inside · inside + hops between · between + bytes on the links / speed inside, or between nodes

with the hops and bytes of a ring, as :mod:`sim.nccl` counts them. Samples whose hops are all alike determine only the
sum of the first three, which is then shared out as in the starting machine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from collectives.contract import contract_of

from .calibration import LARGE, Calibration, Constant, Sample
from .fit import Fitted, fit
from .machine import Costs, Machine, Protocol
from .nccl import RINGS, Nccl
from .regimes import regimes
from .units import show_bytes

PLACES = ("inside", "between")  # a node

Hops = tuple[float, float]


@dataclass(frozen=True)
class _Regime:
    """Constants in seconds and bytes a second; speeds by place (``inside``, ``between``); latency: known alone, or as a
    sum of what ``parts`` names."""

    protocol: Protocol
    speeds: Mapping[str, float]
    known: Mapping[str, bool]
    fitted: Fitted
    members: Sequence[int]


def fit_nccl(samples: Sequence[Sample], start: Machine, notes: Sequence[str] = ()) -> Calibration:
    """The machine on which :class:`sim.nccl.Nccl` takes as long as the samples did.

    Args:
        start: the machine that the samples are from, as far as it is known; with protocols.
    """
    models = {place: Nccl(start, *place) for place in dict.fromkeys((s.nodes, s.ranks) for s in samples)}
    hops = [_hops(models[s.nodes, s.ranks], s.collective) for s in samples]
    members = _members(samples)
    chosen = []
    for number, at in enumerate(members):
        like = "LL128" if number else "LL"
        protocol = _protocol(start, "Simple" if number == len(members) - 1 else like, [samples[i].size for i in at])
        chosen.append(_fit_regime(protocol, [samples[i] for i in at], [hops[i] for i in at], at))
    chosen = _without_gaps(chosen)
    machine, speeds = _machine(start, chosen, samples, models)
    predicted = _predicted(machine, samples)
    left_out = list(predicted)
    for regime in chosen:
        for i, seconds in zip(regime.members, regime.fitted.left_out, strict=True):
            left_out[i] = seconds
    constants, undetermined = _constants(chosen, speeds, samples, hops)
    return Calibration(
        machine, tuple(constants), tuple(samples), tuple(predicted), tuple(left_out), tuple(undetermined), tuple(notes)
    )


def _hops(model: Nccl, collective: str) -> Hops:
    return model.hops("ring" if collective in RINGS else "direct", collective) or (1.0, 0.0)


def _bytes(sample: Sample) -> float:
    return sample.size * contract_of(sample.collective).factor(sample.ranks)


def _members(samples: Sequence[Sample]) -> list[list[int]]:
    """The samples of each regime, as many regimes as the runs together support."""
    runs: dict[tuple[object, ...], list[int]] = {}
    for i, s in enumerate(samples):
        runs.setdefault((s.collective, s.algorithm, s.nodes, s.ranks), []).append(i)
    found = []
    for places in runs.values():
        places.sort(key=lambda i: samples[i].size)
        found.append((places, regimes([float(samples[i].size) for i in places], [samples[i].time_s for i in places])))
    most = max(len(ways) for _, ways in found)
    number = min(range(most), key=lambda k: sum(ways[min(k, len(ways) - 1)][1] for _, ways in found)) + 1
    members: list[list[int]] = [[] for _ in range(number)]
    for places, ways in found:
        parts = ways[min(number, len(ways)) - 1][0]
        for regime, part in zip(members[-len(parts) :], parts, strict=True):  # the last regime is that of large sizes
            regime += [places[at] for at in part]
    return [sorted(regime) for regime in members if regime]


def _without_gaps(chosen: Sequence[_Regime]) -> list[_Regime]:
    """Every size belongs to a regime: the first from 0 on, each at least to where the next one begins."""
    nexts = [*(regime.protocol.least for regime in chosen[1:]), math.inf]
    found = []
    for number, (regime, after) in enumerate(zip(chosen, nexts, strict=True)):
        p = regime.protocol
        limits = replace(p, least=p.least if number else 0.0, below=max(p.below, after))
        found.append(replace(regime, protocol=limits))
    return found


def _protocol(start: Machine, like: str, sizes: Sequence[int]) -> Protocol:
    """What the starting machine says of rings in a protocol, for sizes like these."""
    rings = {p.name: p for p in start.protocols if p.algorithm == "ring"}
    if not rings:
        raise ValueError(f"machine {start.name} has no protocol for rings to start from: use a preset")
    ring = rings.get(f"ring/{like}") or rings.get("ring/Simple") or [*rings.values()][-1]
    name = f"ring/from {show_bytes(min(sizes)).replace(' ', '')}"
    return replace(ring, name=name, least=float(min(sizes)), below=float(max(sizes) + 1))


def _fit_regime(start: Protocol, samples: Sequence[Sample], hops: Sequence[Hops], members: Sequence[int]) -> _Regime:
    parts = {"base": start.base, **{name: getattr(start, name) for name in PLACES}}
    whole = start.base + max(h[0] * start.inside + h[1] * start.between for h in hops)
    ratio = max(1.0, _not_bandwidth(samples) / whole)
    columns: dict[str, tuple[float, list[float]]] = {}  # name → start, factor in every row
    if len(set(hops)) == 1:
        columns["latency"] = whole * ratio, [1.0] * len(samples)
    else:
        columns["base"] = start.base * ratio, [1.0] * len(samples)
        for at, name in enumerate(PLACES):
            if any(h[at] for h in hops):
                columns[name] = parts[name] * ratio, [h[at] for h in hops]
    latencies = [factors for _, factors in columns.values()]
    for name in PLACES:
        there = [s.nodes == 1 if name == "inside" else s.nodes > 1 for s in samples]
        if any(there):
            best = max(s.busbw for s, here in zip(samples, there, strict=True) if here)
            columns[f"speed {name}"] = 1 / best, [_bytes(s) * here for s, here in zip(samples, there, strict=True)]
    rows = list(zip(*(factors for _, factors in columns.values()), strict=True))
    fitted = fit(rows, [s.time_s for s in samples], [value for value, _ in columns.values()])
    values = dict(zip(columns, fitted.values, strict=True))
    known = {name: fitted.known(at) for at, name in enumerate(columns)}
    for at, name in enumerate([*columns][: len(latencies)]):
        known[name] &= _rank(latencies[:at] + latencies[at + 1 :]) < _rank(latencies)
    share = values.get("latency", 0.0) / whole  # each part's, where only their sum is known
    parts = {name: values.get(name, value * share if share else value) for name, value in parts.items()}
    speeds = {}
    for name in PLACES:
        if f"speed {name}" in values:  # no bandwidth shows in the times: it is beyond what they could show
            slowest = columns[f"speed {name}"][0]
            speeds[name] = 1 / (values[f"speed {name}"] or slowest / 10)
    protocol = replace(start, base=parts["base"], inside=parts["inside"], between=parts["between"], fill=0.0)
    return _Regime(protocol, speeds, known, fitted, members)


def _not_bandwidth(samples: Sequence[Sample]) -> float:
    """Seconds of the fastest sample beyond what its bytes take at the best bandwidth of all."""
    least = min(samples, key=lambda s: s.time_s)
    return least.time_s * (1 - least.busbw / max(s.busbw for s in samples))


def _rank(columns: Sequence[Sequence[float]]) -> int:
    """How many of the columns of whole numbers are independent."""
    left = [list(column) for column in columns]
    rank = 0
    while left:
        column = left.pop()
        pivot = next((at for at, value in enumerate(column) if abs(value) > 1e-9), None)
        if pivot is not None:
            rank += 1
            left = [
                [a - other[pivot] / column[pivot] * b for a, b in zip(other, column, strict=True)] for other in left
            ]
    return rank


def _machine(
    start: Machine, chosen: Sequence[_Regime], samples: Sequence[Sample], models: Mapping[tuple[int, int], Nccl]
) -> tuple[Machine, dict[str, float]]:
    """The starting machine with links so fast that rings are as fast as in the regime of large sizes."""
    simple = chosen[-1]
    parameters = dict(start.parameters)
    inside = simple.speeds.get("inside")
    if inside is not None:
        factor = inside / _bus(models, single=True)
        for name in ("nvlink", "pcie", "socket"):
            if name in parameters:
                parameters[name] *= factor
    between = simple.speeds.get("between")
    if between is not None:
        local = max(s.ranks // s.nodes for s in samples)
        if inside is None:
            parameters["nvlink"] = max(parameters.get("nvlink", 0.0), between * 1.001)
        parameters["nic"] = between / (parameters.get("nics") or parameters.get("local", local))
        if not parameters.get("nics"):
            parameters["nic"] *= parameters.get("local", local) / local
    last = simple.protocol
    parameters["latency"] = (last.inside, last.between)
    speeds = dict(simple.speeds)
    protocols = [
        replace(
            regime.protocol, share=max(regime.speeds[name] / speeds[name] for name in regime.speeds if name in speeds)
        )
        if any(name in speeds for name in regime.speeds)
        else regime.protocol
        for regime in chosen
    ]
    machine = replace(
        start,
        parameters=parameters,
        costs=Costs(base=last.base),
        protocols=tuple(protocols),
        source=f"fitted to {len(samples)} measured time{'s' * (len(samples) > 1)}",
    )
    return machine, speeds


def _bus(models: Mapping[tuple[int, int], Nccl], single: bool) -> float:
    return max(model.bus for (nodes, _), model in models.items() if (nodes == 1) == single)


def _predicted(machine: Machine, samples: Sequence[Sample]) -> list[float]:
    models: dict[tuple[int, int], Nccl] = {}
    times = []
    for s in samples:
        model = models.get((s.nodes, s.ranks)) or models.setdefault((s.nodes, s.ranks), Nccl(machine, s.nodes, s.ranks))
        times.append(model.best(s.collective, s.size).time_s)
    return times


def _constants(
    chosen: Sequence[_Regime], speeds: Mapping[str, float], samples: Sequence[Sample], hops: Sequence[Hops]
) -> tuple[list[Constant], list[str]]:
    """For the table; and what the samples leave open, in words."""
    constants, undetermined = [], []
    for regime in chosen:
        p = regime.protocol
        mine = [h for i, h in enumerate(hops) if i in set(regime.members)]
        present = ["base", *(n for at, n in enumerate(PLACES) if any(h[at] for h in mine))]
        for name in present:
            known = regime.known.get(name, False)
            constants.append(Constant(f"{p.name} {name}", getattr(p, name) * 1e6, "us", known))
        if "latency" in regime.known:
            h = mine[0]
            total = p.base + h[0] * p.inside + h[1] * p.between
            if regime.known["latency"]:
                open_ = (
                    f"{p.name}: {' and '.join(present)} apart (one number of hops); their sum is {total * 1e6:.4g} us"
                )
            else:
                open_ = f"{p.name}: latency ({', '.join(present)}): no size is small enough to show it"
            undetermined.append(open_)
        else:
            unknown = [name for name in present if not regime.known.get(name, False)]
            if unknown:
                undetermined.append(f"{p.name}: {', '.join(unknown)}: more numbers of ranks or nodes would tell")
        for name, speed in regime.speeds.items():
            known = regime.known[f"speed {name}"]
            constants.append(Constant(f"{p.name} speed {name}", speed / 1e9, "GB/s", known))
            if not known:
                undetermined.append(f"{p.name}: the speed of the links {name}: no size is large enough to show it")
    if "between" not in speeds:
        undetermined.append("NICs and hops between nodes: no run has several nodes")
    if "inside" not in speeds:
        undetermined.append("links and hops inside a node: no run is inside one node")
    if max(s.size for s in samples) < LARGE:
        undetermined.append("the links at full speed: no size is 64 MiB or larger")
    return constants, undetermined
