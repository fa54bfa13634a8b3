"""Collectives on networks: formulas of docstrings and papers, published values, bounds, faults, both paths alike."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from collectives.combinators import rings, split
from collectives.registry import algorithms, find
from collectives.schedule import Reduce, Schedule, Send
from sim.collective import Outcome, simulate
from sim.collective_replay import replay
from sim.faults import Faults
from sim.machine import Costs
from sim.presets import PRESETS, find_machine

EVERY = [pytest.param(s, id=f"{s.collective}-{s.name}") for s in algorithms() if s.name != "double_tree"]
RAILS = "rails,local=8,nvlink=450,nic=50,latency=1us/5us"


def outcome(
    collective: str, algorithm: str | Schedule, machine: str, nbytes: float, costs: Costs | None = None, **how: Any
) -> Outcome:
    chosen = find_machine(machine)
    events, faults = how.pop("events", False), how.pop("faults", Faults())
    network = faults.on(chosen.network(**how))
    return simulate(find(collective, algorithm), network, nbytes, costs or chosen.costs, faults, events)


# The uniform network


def by_docstring(schedule: Schedule, n: int, S: float, alpha: float, beta: float, gamma: float) -> float | None:
    """The formula in the docstring, or None where it is not exact."""
    doc = schedule.programs[0].__doc__ or ""
    (formula,) = re.findall(r"^ *Cost: (.+)$", doc, re.MULTILINE)
    exact = re.findall(r"Exact for: (every n|n a power of two|n from 2 on|no n)\b", doc)
    if exact == ["no n"] or (exact == ["n a power of two"] and n & (n - 1)) or (exact == ["n from 2 on"] and n < 2):
        return None
    local = max(d for d in range(1, math.isqrt(n) + 1) if n % d == 0)
    names = {"n": n, "k": schedule.chunk_count(n), "S": S, "log2n": (n - 1).bit_length(), "local": local}
    names |= {"nodes": n // local, "alpha": alpha, "beta": beta, "gamma": gamma, "max": max, "min": min}
    names |= {f.__name__: f for f in (math.ceil, math.floor, math.log2)}
    return float(eval(formula, {"__builtins__": {}}, names))


@pytest.mark.parametrize("schedule", EVERY)
@pytest.mark.parametrize("events", [False, True], ids=["lockstep", "events"])
def test_equals_the_formula_in_its_docstring(schedule: Schedule, events: bool) -> None:
    alpha, beta, gamma, S = 3e-6, 1 / 25e9, 1 / 800e9, 7_654_321.0
    checked = 0
    for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 32):
        wanted = by_docstring(schedule, n, S, alpha, beta, gamma)
        if wanted is None or (schedule.collective == "barrier" and n == 1):
            continue
        network = find_machine("switch,bandwidth=25,latency=3us").network(ranks=n)
        found = simulate(schedule, network, S, Costs(gamma=gamma), events=events)
        assert found.time_s == pytest.approx(wanted, rel=1e-9, abs=1e-18)
        assert found.lower_bound_s <= found.time_s * (1 + 1e-9)
        checked += 1
    assert checked >= 4


@pytest.mark.parametrize(
    ("collective", "algorithm", "n", "milliseconds"),
    [
        ("all_reduce", "ring", 4, 30.012),
        ("all_reduce", "ring", 8, 35.028),
        ("all_reduce", "ring", 16, 37.560),
        ("all_reduce", "ring", 64, 39.627),
        ("all_reduce", "halving_doubling", 4, 30.008),
        ("all_reduce", "halving_doubling", 6, 70.012),
        ("all_reduce", "halving_doubling", 8, 35.012),
        ("all_reduce", "halving_doubling", 16, 37.516),
        ("all_reduce", "recursive_doubling", 4, 40.004),
        ("all_reduce", "recursive_doubling", 6, 80.008),
        ("all_reduce", "recursive_doubling", 8, 60.006),
        ("all_reduce", "recursive_doubling", 16, 80.008),
        ("all_to_all", "pairwise", 8, 17.514),
        ("all_to_all", "direct", 8, 17.502),
        ("broadcast", "binomial", 8, 60.006),
        ("all_gather", "ring", 8, 17.514),
        ("all_gather", "bruck", 8, 17.506),
    ],
)
def test_equals_an_independent_flow_simulator(collective: str, algorithm: str, n: int, milliseconds: float) -> None:
    """SimGrid 3.32 (replayed MPI, contention on, cross traffic off): 1 GB, 50 GB/s a port, 2 us a path."""
    found = outcome(collective, algorithm, "switch,bandwidth=50,latency=2us", 1e9, ranks=n)
    assert found.time_s * 1e3 == pytest.approx(milliseconds, abs=6e-4)


@pytest.mark.parametrize(("nodes", "milliseconds"), [(128, 10.133826), (16, 8.740389)])
@pytest.mark.parametrize("events", [False, True], ids=["lockstep", "events"])
def test_hierarchical_over_rails(nodes: int, milliseconds: float, events: bool) -> None:
    found = outcome("all_reduce", "hierarchical:local=8", RAILS, 1e9, nodes=nodes, events=events)
    assert found.time_s * 1e3 == pytest.approx(milliseconds, abs=6e-7)
    assert found.path == ("events" if events else "lockstep")


@pytest.mark.parametrize("ranks", [512, 1024, 16384])
def test_large_rings_are_read_for_rank_0_alone(ranks: int) -> None:
    found = outcome("all_reduce", "ring", "ring,bandwidth=50,latency=1us", 1e9, ranks=ranks)
    assert found.path == "lockstep"
    assert found.time_s == pytest.approx(2 * (ranks - 1) * (1e-6 + 1e9 / ranks / 50e9), rel=1e-9)
    assert sum(found.carried) == pytest.approx(2 * (ranks - 1) * 1e9)


@pytest.mark.parametrize(
    "machine", ["ring", "switch", "full", "torus,shape=3x4", "dgx-h100", "dgx-1v", "laptop,local=12"]
)
def test_both_paths_are_one(machine: str) -> None:
    ranks = 8 if machine.startswith("dgx") else 12
    costs = Costs(base=1e-6, overhead=2e-6, gamma=1e-12, cores=find_machine(machine).costs.cores)
    for schedule in algorithms():
        if schedule.symmetric:
            how = {"costs": costs, "ranks": ranks}
            fast = outcome(schedule.collective, schedule, machine, 1e7, **how)
            slow = outcome(schedule.collective, schedule, machine, 1e7, events=True, **how)
            assert fast.time_s == pytest.approx(slow.time_s, rel=1e-9)
            assert list(fast.carried) == pytest.approx(list(slow.carried))
            assert fast.messages == slow.messages
            assert fast.breakdown() == pytest.approx(slow.breakdown(), rel=1e-6, abs=1e-12)


# Every machine and algorithm


@pytest.mark.parametrize("machine", list(PRESETS))
def test_parts_add_up_and_nothing_beats_the_bound(machine: str) -> None:
    for nodes in (1, 2):
        if nodes == 2 and PRESETS[machine].kind != "cluster":
            continue
        chosen = find_machine(machine)
        network = (
            chosen.network(nodes=nodes)
            if chosen.kind == "cluster"
            else chosen.network(ranks=4, nodes=None)
            if chosen.kind != "torus"
            else chosen.network()
        )
        if len(network.devices) > 32:
            network.devices[32:], network._at[32:] = [], []
        for schedule in algorithms():
            found = simulate(schedule, network, 3e6, Costs(2e-6, 1e-6, 1e-12, chosen.costs.cores))
            total = pytest.approx(found.time_s, rel=1e-9)
            assert sum(found.breakdown().values()) == total
            assert sum(seconds for _, seconds in found.phases()) + 2e-6 == total
            assert all(share <= 1 + 1e-9 for _, _, share in found.links())
            assert found.time_s >= found.lower_bound_s * (1 - 1e-9)


def test_the_order_of_a_ring_matters() -> None:
    """Two nodes of two with a NIC each: in order one ring edge leaves each node, crossed two: twice the bytes a NIC."""
    machine = "rails,local=2,nvlink=200,nics=1,nic=10,latency=0"
    good = outcome("all_reduce", "ring", machine, 1e9, nodes=2)
    bad = outcome("all_reduce", "ring", machine, 1e9, nodes=2, order=[0, 2, 1, 3])
    assert bad.time_s / good.time_s == pytest.approx(2.0, rel=1e-9)
    assert good.time_s == pytest.approx(1.5e9 / 10e9, rel=1e-9)


@pytest.mark.parametrize(("nics", "milliseconds"), [(1, 280), (2, 140), (4, 70)])
def test_a_ring_a_nic(nics: int, milliseconds: float) -> None:
    """1.6 GB on 2 × 4 GPUs, 10 GB/s a NIC: k rings of S/k, each over its own NIC: 2(7/8)S/(kB)."""
    machine = find_machine("rails,local=4,nvlink=4000,nic=10,latency=0")
    network = machine.network(nodes=2)
    orders = []
    for ring in range(nics):
        node = [(ring + i) % 4 for i in range(4)]  # enters and leaves at neighbours; the way back along the same rails
        orders.append([*node, *(4 + gpu for gpu in reversed(node))])
    found = simulate(rings(orders), network, 1.6e9)
    assert found.time_s * 1e3 == pytest.approx(milliseconds, rel=0.02)


def test_channels_share_links() -> None:
    one = outcome("all_reduce", "ring", "ring,bandwidth=10,latency=0", 1e8, ranks=4)
    for channels in (2, 3):
        many = outcome(
            "all_reduce", split(find("all_reduce", "ring"), channels), "ring,bandwidth=10,latency=0", 1e8, ranks=4
        )
        assert many.time_s == pytest.approx(one.time_s, rel=1e-9)
    both = rings([[0, 1, 2, 3], [3, 2, 1, 0]])  # the two directions of a full-duplex ring: half the time
    assert outcome("all_reduce", both, "ring,bandwidth=10,latency=0", 1e8, ranks=4).time_s == pytest.approx(
        one.time_s / 2
    )


# Faults


def test_a_slow_link_slows_a_ring_to_its_pace() -> None:
    """Chunks of 1, links of 1, 1, 0.5, 1: 2(n−1) steps at the slowest, 12; and 6 without it."""
    how = {"costs": Costs(), "ranks": 4}
    assert outcome("all_reduce", "ring", "ring,bandwidth=1,latency=0", 4e9, **how).time_s == pytest.approx(6)
    slow = outcome("all_reduce", "ring", "ring,bandwidth=1,latency=0", 4e9, faults=Faults({"gpu2->gpu3": 0.5}), **how)
    assert slow.time_s == pytest.approx(12)
    assert slow.links()[0][0] == "gpu2->gpu3"
    assert slow.critical_path[-1].link == "gpu2->gpu3"


def test_a_lost_link_is_gone_around_or_reported() -> None:
    lost = Faults(lost=("gpu0-gpu1",))
    around = outcome("all_reduce", "ring", "ring,bandwidth=1,latency=1ms", 4e9, faults=lost, ranks=4)
    assert around.time_s == pytest.approx(6 * 1.003)  # against the traffic, over links that nobody else uses
    assert {name for name, _, _ in around.links()} >= {"gpu0->gpu3", "gpu3->gpu2", "gpu2->gpu1"}
    with pytest.raises(ValueError, match="no way from gpu0 to gpu1"):
        outcome("all_reduce", "ring", "line,bandwidth=1,latency=0", 4e9, faults=lost, ranks=4)


def test_a_straggler_sets_the_pace() -> None:
    for factor in (1.0, 2.0, 3.0):
        found = outcome(
            "all_reduce", "ring", "switch,bandwidth=1,latency=0", 4e9, faults=Faults(straggler={2: factor}), ranks=4
        )
        assert found.time_s == pytest.approx(6 * factor)


def test_jitter_is_seeded_and_only_delays() -> None:
    def seconds(jitter: float, seed: int) -> float:
        return outcome("all_reduce", "ring", "switch", 1e8, faults=Faults(jitter=jitter, seed=seed), ranks=8).time_s

    calm = outcome("all_reduce", "ring", "switch", 1e8, ranks=8).time_s
    assert seconds(0.2, 1) == seconds(0.2, 1) > calm
    assert seconds(0.2, 1) != seconds(0.2, 2)
    assert seconds(1e-6, 1) == pytest.approx(calm, rel=1e-4)


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        (Faults({"gpu0->gpu9": 0.5}), "does not exist: use gpu0->gpu"),
        (Faults({"gpu0->gpu1": 0.0}), "share"),
        (Faults(straggler={9: 2.0}), "ranks are 0 to 3"),
        (Faults(straggler={1: 0.5}), "from 1 on"),
        (Faults(jitter=-1.0), "jitter=-1.0"),
        (Faults(lost=("nowhere",)), "does not exist"),
    ],
)
def test_faults_that_make_no_sense_are_refused(faults: Faults, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        outcome("all_reduce", "ring", "ring", 1e6, faults=faults, ranks=4)


def test_a_schedule_that_waits_for_ever_is_told_so() -> None:
    def lonely(rank: int, size: int) -> Any:
        yield Send(0, (rank + 1) % size)
        yield Reduce(0, (rank + 1) % size)

    with pytest.raises(ValueError, match="rank 0 waits for ever at step 0"):
        outcome("all_reduce", lonely, "ring", 1e6, ranks=3)  # type: ignore[arg-type]


# Shared cores


@pytest.mark.parametrize(("ranks", "cores"), [(2, 2), (4, 2), (4, 1), (6, 3)])
def test_shared_cores_are_the_wire(ranks: int, cores: int) -> None:
    """With fewer cores than ranks all work is shared; every byte, overhead and addition is work."""
    costs = Costs(overhead=5e-6, gamma=1e-10, cores=cores)
    found = outcome("all_reduce", "ring", f"laptop,cores={cores},bandwidth=2,latency=0", 8e6, costs, ranks=ranks)
    chunk = 8e6 / ranks
    step = 5e-6 + chunk / 2e9
    work = 2 * (ranks - 1) * step + (ranks - 1) * chunk * 1e-10
    assert found.time_s == pytest.approx(work * max(1.0, ranks / cores), rel=1e-9)


# The record for pictures


@pytest.mark.parametrize(
    ("collective", "algorithm"),
    [
        ("all_reduce", "ring"),
        ("all_reduce", "ring:channels=2"),
        ("all_reduce", "double_tree"),
        ("all_gather", "bruck"),
        ("all_to_all", "pairwise"),
        ("reduce_scatter", "halving_doubling"),
        ("broadcast", "chain"),
        ("gather", "binomial"),
    ],
)
def test_a_replay_ends_with_what_was_promised(collective: str, algorithm: str) -> None:
    n = 6
    found = outcome(collective, algorithm, "switch", 6e6, Costs(gamma=1e-12), ranks=n, events=True)
    record = replay(found, {})
    held = [list(row) for row in record.starts]
    for move in sorted(record.moves, key=lambda move: move.end):
        held[move.to][move.chunk] = move.holds
    full = n if collective in ("all_reduce", "reduce_scatter") else 1
    share = record.chunks // n
    for rank in range(n):
        for chunk in range(record.chunks):
            mine = chunk % (record.chunks // found.schedule.channels) // share == rank if share else True
            if (
                collective in ("all_reduce", "all_gather", "all_to_all", "broadcast")
                or (collective == "reduce_scatter" and mine)
                or (collective == "gather" and rank == 0)
            ):
                assert held[rank][chunk] == full
    sends = [span for span in record.spans if span.stream.startswith("send")]
    assert len(sends) == found.messages
    assert max(span.end for span in record.spans) <= found.time_s * (1 + 1e-12)
    for curve in record.links:
        assert max(curve.values) <= curve.limit * (1 + 1e-6)
        area = sum(v * (b - a) for v, a, b in zip(curve.values, curve.times, [*curve.times[1:], 0.0], strict=True))
        assert area * 1e9 == pytest.approx(found.carried[found.network.names.index(curve.name)], rel=1e-6)
