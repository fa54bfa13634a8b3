"""NCCL's own time: rings on real wiring, published times, and the choice between its ways."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from collectives.registry import find
from sim.collective import simulate
from sim.machine import Machine, Protocol
from sim.machine_file import from_dict, to_dict
from sim.nccl import LINKS, Nccl, bus_bandwidth, ring_orders
from sim.presets import PRESETS, find_machine
from sim.protocols import read_protocols, write_protocols

US = 1e-6
GPUS = [name for name, machine in PRESETS.items() if machine.protocols]


@pytest.mark.parametrize(
    ("gpus", "rings", "measured"),
    [(2, 1, 22.6), (3, 2, 45), (4, 4, 85), (5, 0, 37), (6, 2, 46), (7, 4, 88), (8, 6, 135)],
)
def test_rings_of_a_cube_mesh_are_those_that_nccl_reaches(gpus: int, rings: int, measured: float) -> None:
    """GB/s of DGX-1V's in-node all-reduce on 2 to 8 GPUs (vTrain). No ring closes over five: a tree along a chain."""
    network = find_machine("dgx-1v,latency=0").network(1, gpus)
    assert bus_bandwidth(network) == pytest.approx(measured * 1e9, rel=0.06)
    if not rings:
        return
    orders = list(ring_orders(network))
    assert len(orders) == rings
    used = Counter(tuple(step) for order in orders for step in pairwise([*order, order[0]]))
    for (a, b), times in used.items():
        assert times * 22.4e9 <= network.graph[network.devices[a]][network.devices[b]]["bandwidth"] * 1.0001
    assert all(set(order) == set(range(gpus)) for order in orders)


@pytest.mark.parametrize(
    ("machine", "nodes", "gb_s"),
    [
        ("dgx-a100", 2, 8 * 23.5),  # the NICs
        ("dgx-a100,nic=100", 2, 235.0),  # NVLink
        ("p4d", 2, 4 * 11.7),
        ("dgx-1v", 2, 4 * 11.0),
        ("mi300x", 2, 6 * 48.0),
        ("pcie-4", 1, 16.0),  # between the sockets
    ],
)
def test_rings_across_nodes_use_every_nic(machine: str, nodes: int, gb_s: float) -> None:
    model = Nccl(find_machine(machine), nodes, nodes * 8 if machine != "pcie-4" else 4)
    assert model.bus == pytest.approx(gb_s * 1e9, rel=1e-6)


@pytest.mark.parametrize(
    ("machine", "ranks", "collective", "nbytes", "algorithm", "us", "within"),
    [
        ("dgx-h200", 8, "all_reduce", 16 << 30, "ring", 81875.7, 0.02),
        ("dgx-h200", 8, "all_gather", 16 << 30, "ring", 41594.9, 0.02),
        ("dgx-h200", 8, "reduce_scatter", 16 << 30, "ring", 41422.9, 0.02),
        ("dgx-h200", 5, "all_reduce", 8 << 30, "ring", 37716.5, 0.02),
        ("dgx-b200", 4, "all_reduce", 8 << 30, "ring", 19139.8, 0.02),
        ("dgx-b200", 8, "all_reduce", 8 << 30, "ring", 22035.2, 0.03),
        ("dgx-h200", 8, "all_reduce", 8 << 30, "nvls", 31774.2, 0.02),
        ("dgx-b200", 6, "all_reduce", 8 << 30, "nvls", 18397.0, 0.02),
        ("dgx-a100", 8, "all_reduce", 1 << 30, "", 8212.6, 0.02),
        ("dgx-1v", 4, "all_reduce", 1 << 30, "", 18869.0, 0.05),
        ("dgx-1v", 8, "all_reduce", 1 << 30, "", 13969.0, 0.05),
        ("gb200-nvl72", 72, "all_reduce", 8 << 30, "", 20299.0, 0.05),
    ],
)
def test_published_times(  # https://github.com/stas00/ml-engineering (H200, B200), nccl-tests' logs (the others)
    machine: str, ranks: int, collective: str, nbytes: int, algorithm: str, us: float, within: float
) -> None:
    found = Nccl(PRESETS[machine], 1, ranks).best(collective, nbytes, algorithm)
    assert found.time_s / US == pytest.approx(us, rel=within)


def test_five_v100_are_slower_than_four() -> None:
    times = [Nccl(PRESETS["dgx-1v"], 1, ranks).best("all_reduce", 1 << 30).time_s for ranks in (4, 5)]
    assert times[1] > 2 * times[0]


def test_a_switch_that_adds_gains_nothing_on_four_gpus() -> None:
    model = Nccl(PRESETS["dgx-h200"], 1, 4)
    times = [model.best("all_reduce", 8 << 30, algorithm).time_s for algorithm in ("ring", "nvls")]
    assert times[0] == pytest.approx(times[1], rel=0.02)


def test_latency_is_that_of_nccls_table() -> None:
    """6.6 + 14 · 0.6 us for a ring in LL on 8 GPUs with NVLink; measured on 8 H100: 12.9 to 16.8 us up to 4 KiB."""
    ways = {e.name: e for e in Nccl(PRESETS["dgx-h100"], 1, 8).estimates("all_reduce", 8)}
    assert ways["ring/LL"].latency_s == pytest.approx(15.0 * US)
    assert ways["tree/LL"].latency_s == pytest.approx((6.8 + 14 * 0.6) * US)
    assert ways["nvls/Simple"].latency_s == pytest.approx(25 * US)
    assert "nvls_tree/Simple" not in ways


def test_hops_between_nodes_are_few_in_a_ring_and_fewer_in_a_tree() -> None:
    model = Nccl(PRESETS["dgx-h100"], 8, 64)
    assert model.hops("ring", "all_reduce") == (112, 14)
    assert model.hops("ring", "all_gather") == (56, 7)
    assert model.hops("tree", "all_reduce") == (14, 6)
    assert model.hops("nvls_tree", "all_reduce") == (0, 6)
    assert model.hops("nvls", "all_reduce") is None
    assert model.hops("tree", "all_gather") is None


@pytest.mark.parametrize("name", GPUS)
@pytest.mark.parametrize("collective", ["all_reduce", "broadcast", "reduce_scatter", "all_to_all", "gather"])
def test_time_grows_with_size_and_small_messages_go_in_ll(name: str, collective: str) -> None:
    model = Nccl(PRESETS[name], 1, min(8, PRESETS[name].parameters["local"]))
    best = [model.best(collective, 4**k) for k in range(2, 17)]
    assert all(a.time_s < b.time_s for a, b in pairwise(best))
    assert best[-1].name.endswith("Simple")
    if collective in ("all_reduce", "broadcast"):
        assert best[0].name.endswith("/LL")


def in_protocol(machine: Machine, protocol: Protocol) -> Machine:
    """The machine as a schedule sees it that is carried in this protocol: its latencies, and its share of the links."""
    speeds = {name: machine.parameters[name] * protocol.share for name in LINKS if name in machine.parameters}
    parameters = {**machine.parameters, **speeds, "latency": (protocol.inside, protocol.between)}
    return replace(machine, parameters=parameters, costs=replace(machine.costs, base=protocol.base))


def test_a_ring_in_a_protocol_is_what_the_simulator_finds() -> None:
    machine = PRESETS["dgx-h100"]
    protocol = next(p for p in machine.protocols if p.name == "ring/LL")
    model = Nccl(machine, 1, 8)
    seen = in_protocol(machine, protocol)
    outcome = simulate(find("all_reduce", "ring"), seen.network(1, 8), 1 << 20, seen.costs)
    assert outcome.time_s == pytest.approx(
        {e.name: e.time_s for e in model.estimates("all_reduce", 1 << 20)}["ring/LL"]
    )


def test_many_nodes_take_no_time_to_model() -> None:
    assert Nccl(PRESETS["gb200-nvl72"], 20, 1440).best("all_reduce", 1 << 30).time_s > 0


def test_one_rank_and_what_is_refused() -> None:
    assert Nccl(PRESETS["dgx-h100"], 1, 1).best("all_reduce", 1 << 20).time_s == 0
    with pytest.raises(ValueError, match="laptop has no protocols"):
        Nccl(PRESETS["laptop"])
    with pytest.raises(ValueError, match="no protocol for nvls"):
        Nccl(PRESETS["dgx-a100"], 1, 8).best("all_reduce", 8, "nvls")
    with pytest.raises(ValueError, match="more than the 8 devices"):
        Nccl(PRESETS["dgx-h100"], 1, 9)


def test_protocols_in_a_machine_file() -> None:
    machine = PRESETS["dgx-h200"]
    assert from_dict(to_dict(machine)).protocols == machine.protocols
    odd = replace(machine.protocols[0], least=3.0, below=4096.0)
    assert read_protocols(write_protocols([odd, Protocol("ring/x")])) == (odd, Protocol("ring/x"))
    for wrong, words in (({"share": 0}, "share=0"), ({"bas": 1}, "use base"), ({"base": "fast"}, "1us")):
        with pytest.raises(ValueError, match=words):
            read_protocols([{"name": "ring/x", **wrong}])
    with pytest.raises(ValueError, match="list of objects"):
        read_protocols(3)
