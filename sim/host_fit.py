"""The constants of the cost model from this project's own benchmark, on one host or on hosts with a port each.

A schedule's time, as :mod:`collectives.cost` has it, is linear in them where all ranks do alike::

    time = base + alpha · steps + overhead · messages + beta · bytes + gamma · bytes combined

where ranks that share cores count each other's messages and bytes too. How often a constant stands in a time is what
the cost model says with that constant at 1 and the others at 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from collectives.cost import Machine as Model
from collectives.cost import predict
from collectives.registry import find
from collectives.schedule import Schedule

from .calibration import Calibration, Constant, Sample
from .collective import simulate
from .fit import fit
from .machine import Costs, Machine
from .presets import PRESETS

NAMES = ("base", "alpha", "overhead", "beta", "gamma")
LINEAR = 0.01  # relative


def fit_hosts(samples: Sequence[Sample], cores: int, notes: Sequence[str] = ()) -> Calibration:
    """A ``loopback`` machine (one host), or a ``switch`` (several, one rank each, every one behind its port).

    Args:
        cores: of a host, which its ranks share; 0: each rank has its own.

    Raises:
        ValueError: no algorithm of the samples has a known schedule that is the same for all ranks.
    """
    hosts = max(s.nodes for s in samples)
    cores = cores if hosts == 1 else 0
    preset = PRESETS["laptop"]
    start = {
        "base": preset.costs.base,
        "alpha": preset.parameters["latency"][0],
        "overhead": preset.costs.overhead,
        "beta": 1 / preset.parameters["bandwidth"] if hosts == 1 else min(s.time_s / s.size for s in samples),
        "gamma": preset.costs.gamma,
    }
    kept: list[Sample] = []
    schedules: list[Schedule] = []
    rows: list[list[float]] = []
    left: set[str] = set()
    for s in samples:
        found = _read(s, cores, start)
        if found is None:
            left.add(s.algorithm or "unnamed")
        else:
            kept.append(s)
            schedules.append(found[0])
            rows.append(found[1])
    if not kept:
        raise ValueError(
            f"no algorithm in it ({', '.join(sorted(left))}) is one to fit: run bench with --algorithm ring"
        )
    if left:
        notes = [*notes, f"left out, as their time is not linear in the constants: {', '.join(sorted(left))}"]
    _scale(start, kept, rows)
    columns = [at for at in range(len(NAMES)) if any(row[at] for row in rows)]
    fitted = fit(
        [[row[at] for at in columns] for row in rows], [s.time_s for s in kept], [start[NAMES[at]] for at in columns]
    )
    values = {**start, **{NAMES[at]: value for at, value in zip(columns, fitted.values, strict=True)}}
    known = {NAMES[at]: fitted.known(place) for place, at in enumerate(columns)}
    beta = values["beta"] or start["beta"] / 10
    costs = Costs(values["base"], values["overhead"], values["gamma"], cores)
    if hosts == 1:
        ranks = max(s.ranks for s in kept)
        parameters = {"local": ranks, "bandwidth": 1 / beta, "cores": cores or ranks}
        machine = Machine("loopback", "loopback", {**parameters, "latency": (values["alpha"],) * 2}, costs)
    else:
        parameters = {"devices": hosts, "bandwidth": 1 / beta}
        machine = Machine("hosts", "switch", {**parameters, "latency": (values["alpha"],) * 2}, costs)
    machine = replace(machine, source=f"fitted to {len(kept)} measured times of this project's benchmark")
    predicted = [
        simulate(schedule, machine.network(None, s.ranks), s.size, costs).time_s
        for schedule, s in zip(schedules, kept, strict=True)
    ]
    constants = [Constant(name, values[name] * 1e6, "us", known.get(name, False)) for name in NAMES[:3]]
    for name in NAMES[3:]:  # as a bandwidth; 0 where it costs nothing
        constants.append(Constant(name, 1e-9 / values[name] if values[name] else 0.0, "GB/s", known.get(name, False)))
    constants.append(Constant("cores", float(cores), "", cores > 0))
    undetermined = [name for name in NAMES if not known.get(name, False)]
    words = (
        [f"{', '.join(undetermined)}: more numbers of ranks, algorithms or sizes would tell"] if undetermined else []
    )
    return Calibration(
        machine, tuple(constants), tuple(kept), tuple(predicted), fitted.left_out, tuple(words), tuple(notes)
    )


def _read(sample: Sample, cores: int, start: Mapping[str, float]) -> tuple[Schedule, list[float]] | None:
    """The sample's schedule, and how often each constant stands in its time; None: unknown, or not linear."""
    try:
        schedule = find(sample.collective, sample.algorithm)
    except ValueError:
        return None

    def time(**constants: float) -> float:
        model = replace(Model(0.0, 0.0, cores=cores), **constants)  # type: ignore[arg-type]
        return predict(schedule, sample.ranks, sample.size, model)

    row = [time(**{name: 1.0}) for name in NAMES]
    together = sum(times * start[name] for times, name in zip(row, NAMES, strict=True))
    return (schedule, row) if abs(together / time(**start) - 1) < LINEAR else None


def _scale(start: dict[str, float], samples: Sequence[Sample], rows: Sequence[Sequence[float]]) -> None:
    """Bring the start near the samples: its latencies to the fastest one, its bandwidths to the largest."""
    for names, at in (
        (NAMES[:3], min(range(len(samples)), key=lambda i: samples[i].time_s)),
        (NAMES[3:], max(range(len(samples)), key=lambda i: samples[i].size)),
    ):
        part = sum(rows[at][NAMES.index(name)] * start[name] for name in names)
        for name in names:
            start[name] *= samples[at].time_s / part if part else 1.0
