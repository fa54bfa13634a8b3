"""Rings through a machine's links: as many as there is room for, checked by exhaustion, theorem and measurement."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations, permutations
from pathlib import Path

import pytest

from collectives.bench.order import parse_order
from collectives.combinators import over_nodes, rings
from collectives.proof import prove
from sim.__main__ import DOOR
from sim.collective import simulate
from sim.nodes import CUBE_MESH
from sim.presets import find_machine
from sim.rings import Arc, Order, arcs_of, best_order, chain, hops, load, narrowest, pack

# GB/s of bus bandwidth that NCCL's all_reduce reached on the first GPUs of a DGX-1V with large buffers.
MEASURED = {2: 22.5, 3: 45.0, 4: 85.4, 6: 46.0, 7: 88.0, 8: 136.0}


def check(found: Sequence[Order], arcs: dict[Arc, int], among: Sequence[int]) -> None:
    """Each is a ring through all of them, and together they take no more than there is."""
    used = Counter(arc for order in found for arc in hops(order))
    assert all(sorted(order) == sorted(among) for order in found)
    assert all(number <= arcs[arc] for arc, number in used.items())


def by_exhaustion(arcs: dict[Arc, int], among: Sequence[int]) -> int:
    """The most rings, by trying every ring on what is left of every packing."""
    every = [(among[0], *rest) for rest in permutations(among[1:])]
    seen: dict[tuple[int, ...], int] = {}

    def most(left: dict[Arc, int]) -> int:
        key = tuple(left.values())
        if key not in seen:
            rest = [order for order in every if all(left.get(arc, 0) > 0 for arc in hops(order))]
            smaller = ({arc: number - (arc in hops(order)) for arc, number in left.items()} for order in rest)
            seen[key] = max((1 + most(less) for less in smaller), default=0)
        return seen[key]

    return most(arcs)


@pytest.mark.parametrize(("gpus", "count"), [(2, 1), (3, 2), (4, 4), (5, 0), (6, 2), (7, 4), (8, 6)])
def test_a_dgx_1v_has_as_many_as_nccl_finds(gpus: int, count: int) -> None:
    arcs = arcs_of(CUBE_MESH, range(gpus))
    found = pack(arcs, range(gpus))
    check(found, arcs, range(gpus))
    assert len(found) == count


@pytest.mark.parametrize(("gpus", "measured"), MEASURED.items())
def test_their_bandwidth_is_what_was_measured_within_a_tenth(gpus: int, measured: float) -> None:
    found = pack(arcs_of(CUBE_MESH, range(gpus)), range(gpus))
    reached = load(find_machine("dgx-1v").network(nodes=1), found)
    assert reached.busbw / 1e9 == pytest.approx(measured, rel=0.1)


@pytest.mark.parametrize(("gpus", "count"), [(2, 1), (3, 2), (4, 2), (5, 4), (6, 4), (7, 6)])
def test_a_full_mesh_splits_into_rings_except_of_4_and_6(gpus: int, count: int) -> None:
    """Tillson 1980: the complete directed graph is a sum of Hamiltonian cycles except on 4 and 6 vertices."""
    arcs = {(a, b): 1 for a in range(gpus) for b in range(gpus) if a != b}
    found = pack(arcs, range(gpus))
    check(found, arcs, range(gpus))
    assert len(found) == count


@pytest.mark.parametrize("seed", range(12))
def test_none_has_more(seed: int) -> None:
    chance = random.Random(seed)
    among = chance.sample(range(8), 4 + seed % 2)
    arcs = arcs_of({pair: chance.choice((0, 1, 1, 2)) for pair in combinations(range(8), 2)}, among)
    found = pack(arcs, among)
    check(found, arcs, among)
    assert len(found) == by_exhaustion(arcs, among)
    assert len(found) <= narrowest(arcs, among)[1]


@pytest.mark.parametrize(("gpus", "away"), [(9, (1, 2)), (12, (1, 5)), (16, (1,))])
def test_large_machines_get_rings_that_fit(gpus: int, away: tuple[int, ...]) -> None:
    """GPU i is joined to i ± each of ``away``: so many rings in each direction, and no more leave a GPU."""
    links = {(min(a, b), max(a, b)): 1 for a in range(gpus) for step in away for b in [(a + step) % gpus]}
    arcs = arcs_of(links, range(gpus))
    found = pack(arcs, range(gpus))
    check(found, arcs, range(gpus))
    assert len(found) == 2 * len(away)


def test_where_no_ring_closes_a_chain_may_lead_through() -> None:
    arcs = arcs_of(CUBE_MESH, range(5))
    way = chain(arcs, range(5))
    assert way is not None
    assert sorted(way) == list(range(5))
    assert all(arc in arcs for arc in hops(way)[:-1])
    assert chain(arcs_of({(0, 1): 1, (2, 3): 1}, range(4)), range(4)) is None
    assert narrowest(arcs, range(5)) == ((4,), 2)


def test_over_pcie_what_is_shared_is_crossed_once() -> None:
    """GPUs that are numbered across sockets and switches: in the order of their numbers, links carry two or more."""
    machine = find_machine("pcie-8")
    scattered = machine.network(nodes=1, order=[0, 4, 2, 6, 1, 5, 3, 7])
    order = best_order(scattered, range(8))
    assert load(scattered, [order]).hops == 1
    assert load(scattered, [tuple(range(8))]).hops > 1


def test_above_eight_the_ring_goes_through_a_group_before_it_leaves_it() -> None:
    pairs = [[i, i + 6] for i in range(6)]
    halves = [[0, 6, 2, 8, 4, 10], [1, 7, 3, 9, 5, 11]]
    network = find_machine("pcie-8,local=12").network(nodes=1)
    assert best_order(network, range(12), [pairs, halves]) == (0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11)


@pytest.mark.parametrize(("nics", "milliseconds"), [(1, 280), (2, 140), (4, 70)])
def test_a_ring_a_nic_divides_the_time_over_nodes(nics: int, milliseconds: float) -> None:
    """NVIDIA/nccl#569: 8 GPUs, 1.6 GB, NICs of 10 GB/s: 2 · 7/8 · S / (k B)."""
    orders = over_nodes([range(nics)], 8 // nics, nics)
    network = find_machine(f"dgx-h100,local={nics},nvlink=10000,nic=10,latency=0us/0us").network(nodes=8 // nics)
    time = simulate(rings(orders), network, 1.6e9).time_s
    assert time * 1e3 == pytest.approx(milliseconds, rel=1e-3)
    assert load(network, orders).busbw == pytest.approx(nics * 10e9)


@pytest.mark.parametrize(("nodes", "local", "nics"), [(2, 2, 2), (2, 8, 4), (4, 4, 4), (3, 4, 2), (2, 6, 1), (5, 1, 1)])
def test_rings_over_nodes_are_right_and_share_the_nics_equally(nodes: int, local: int, nics: int) -> None:
    nic = [rank * nics // local for rank in range(local)]
    orders = over_nodes([range(local)], nodes, nics, nic)
    schedule = rings(orders)
    least = Fraction(2 * (nodes * local - 1), nodes * local)
    assert prove(schedule, nodes * local).sent == dict.fromkeys(range(nodes * local), least)
    crossings = [(a, b) for order in orders for a, b in hops(order) if a // local != b // local]
    for way in (0, 1):
        used = Counter((hop[way] // local, nic[hop[way] % local]) for hop in crossings)
        assert used == {(node, number): 1 for node in range(nodes) for number in range(nics)}
    if nodes % 2 == 0:  # NICs of equal number: no packet needs to cross from rail to rail
        assert all(nic[a % local] == nic[b % local] for a, b in crossings)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = DOOR.main(["rings", *words])
    out, err = capsys.readouterr()
    return status, out, err


def test_the_command_says_why_five_are_slower_than_four(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = tmp_path / "rings.json"
    status, out, _ = run(capsys, "dgx-1v", "--gpus", "0,1,2,3,4", "--json", str(target))
    said = json.loads(target.read_text())
    assert (status, said["rings"], sorted(said["fallback"])) == (0, [], [0, 1, 2, 3, 4])
    assert "GPU 4 is joined to the others by 2 NVLinks, all to GPU 0" in said["bottleneck"]
    assert said["busbw"] == pytest.approx(37.0, rel=0.1)  # as measured: NCCL takes a tree
    assert "over NVLink, a chain: " in out
    four = json.loads(run(capsys, "dgx-1v", "--gpus", "3,0,2,1", "--json")[1])
    assert len(four["rings"]) == 4
    assert four["busbw"] == pytest.approx(89.6)
    assert said["busbw"] < four["busbw"] / 2


def test_a_switch_takes_any_order_and_a_matrix_names_its_gpus(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows = [[f"GPU{i}", *("X" if i == j else "NV12" for j in range(8))] for i in range(8)]
    topo, orders = tmp_path / "topo.txt", tmp_path / "order.json"
    names = ["", *(f"GPU{i}" for i in range(8))]
    topo.write_text("\n".join("\t".join(row) for row in [names, *rows]))
    status, out, _ = run(capsys, str(topo), "--emit", str(orders))
    assert status == 0
    assert "234.9 GB/s" in out
    assert "taken for a100" in out
    assert json.loads(orders.read_text())["orders"] == [list(range(8))]


@pytest.mark.parametrize(("nics", "milliseconds"), [(1, 280), (2, 140), (4, 70)])
def test_the_command_shows_what_more_nics_bring(
    nics: int, milliseconds: float, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target, ranks = tmp_path / "order.json", 8
    machine = f"dgx-h100,local={nics},nvlink=10000,nic=10,latency=0us/0us"
    words = [machine, "--nodes", str(ranks // nics), "--size", "1600000000", "--emit", str(target)]
    status, out, _ = run(capsys, *words)
    assert status == 0
    assert f"bus bandwidth  {10 * nics} GB/s" in out
    shown = float(out.split("all-reduce")[1].split()[0])
    assert shown == pytest.approx(milliseconds, rel=1e-3)
    orders = parse_order(str(target), ranks)
    assert len(orders) == (0 if nics == 1 else nics)  # the natural order needs no renaming
    assert all(sorted(order) == list(range(ranks)) for order in orders)
    with pytest.raises(ValueError, match=r"it lacks 8; each must stand in it once \(an order is for one machine"):
        parse_order(str(target), ranks + 1)


def test_some_gpus_of_several_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    """GPUs 0 to 3 of a DGX-1V have two NICs of 11 GB/s, and rings over NVLink."""
    said = json.loads(run(capsys, "dgx-1v", "--nodes", "2", "--gpus", "0,1,2,3", "--json")[1])
    assert said["gpus"] == [0, 1, 2, 3, 8, 9, 10, 11]
    assert said["busbw"] == pytest.approx(22)
    links = arcs_of(CUBE_MESH, range(4))
    for order in said["rings"]:
        assert sorted(order) == said["gpus"]
        inside = [(a % 8, b % 8) for a, b in hops(order) if a // 8 == b // 8]
        assert len(inside) == 6
        assert all(arc in links for arc in inside)


def test_the_json_has_these_keys_and_no_ring_is_no_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    topo = tmp_path / "topo.txt"
    topo.write_text("\tGPU0\tGPU1\nGPU0\t X \tPHB\nGPU1\tPHB\t X \n")
    status, out, _ = run(capsys, str(topo), "--json")
    said = json.loads(out)
    assert (status, said["rings"], said["fallback"]) == (0, [], [0, 1])
    assert said["busbw"] == pytest.approx(22)
    assert isinstance(said["bottleneck"], str)
    assert {"rings", "fallback", "busbw", "bottleneck"} <= said.keys()


def matrix(gpus: int, cell: Callable[[int, int], str]) -> str:
    names = [f"GPU{i}" for i in range(gpus)]
    rows = [[names[a], *("X" if a == b else cell(a, b) for b in range(gpus))] for a in range(gpus)]
    return "\n".join("\t".join(row) for row in [["", *names], *rows])


@pytest.mark.parametrize(
    ("gpus", "cell", "count"),
    [
        # a hypercube of 16: equally many to each neighbour, but not to all, so there is no switch
        (16, lambda a, b: "NV2" if (a ^ b).bit_count() == 1 else "SYS", 8),
        # four H100s with six links to each of the others, 18 in all
        (4, lambda a, b: "NV6", 18),
        # pairs with a bridge: no ring leaves a pair over NVLink
        (4, lambda a, b: "NV4" if a // 2 == b // 2 else "SYS", 0),
    ],
)
def test_links_that_lead_to_no_switch(
    gpus: int, cell: Callable[[int, int], str], count: int, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    topo = tmp_path / "topo.txt"
    topo.write_text(matrix(gpus, cell))
    said = json.loads(run(capsys, str(topo), "--json")[1])
    assert len(said["rings"]) == count
    arcs = {(a, b): int(cell(a, b)[2:]) for a in range(gpus) for b in range(gpus) if a != b and cell(a, b)[:2] == "NV"}
    check([tuple(order) for order in said["rings"]], arcs, range(gpus))
    assert ("taken for h100" in " ".join(said["notes"])) == (count == 18)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["dgx-1v", "--gpus", "0,8"], "name each once, from 0 to 7"),
        (["dgx-1v", "--gpus", "0,0"], "name each once"),
        (["dgx-1v", "--gpus", "a"], "write numbers of GPUs"),
        (["dgx-1w"], "dgx-1v"),
        (["ring", "--nodes", "2"], "name a cluster"),
        (["dgx-1v", "--nodes", "0"], "nodes=0"),
        (["dgx-1v", "--nodes", "2", "--gpus", "8"], "from 0 to 7"),
        (["dgx-1v", "--size", "much"], "--size 'much'"),
    ],
)
def test_what_makes_no_sense_is_refused(capsys: pytest.CaptureFixture[str], words: list[str], sentence: str) -> None:
    status, _, err = run(capsys, *words)
    assert status == 2
    assert sentence in err
