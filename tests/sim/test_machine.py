"""Machines and topologies: published counts, routes, files, and what is refused."""

from __future__ import annotations

import contextlib
import json
import re
from itertools import pairwise
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectives.readers.topo_matrix import read_topo
from sim.graph import describe
from sim.machine_file import from_dict, read_machine, to_dict
from sim.matrix import machine_of
from sim.presets import PRESETS, find_machine


def network(text: str, **how: int):  # type: ignore[no-untyped-def]
    return find_machine(text).network(**how)


@pytest.mark.parametrize(
    ("k", "hosts", "switches", "links"), [(4, 16, 20, 48), (8, 128, 80, 384), (16, 1024, 320, 3072)]
)
def test_k_ary_fat_trees_have_the_published_counts(k: int, hosts: int, switches: int, links: int) -> None:
    assert describe(network(f"fat-tree,k={k}").graph) == {"device": hosts, "switch": switches, "links": links}


def test_three_leaves_of_36_with_12_cables_to_one_spine() -> None:
    found = network("fat-tree,leaf=36,spines=1,cables=12,nic=10", ranks=108)
    assert describe(found.graph) == {"device": 108, "switch": 4, "links": 108 + 3}
    assert found.graph["leaf0"]["spine0"]["bandwidth"] == 12 * 10e9  # 144 cables less 108: 36, in 3 links of 12; 3:1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fat-tree,k=3", "even number of ports"),
        ("dgx-h10", "use dgx-h100"),
        ("ring,bandwidth=-1", "above 0"),
        ("ring,bandwidth=0", "above 0"),
        ("ring,latency=-1us", "from 0 on"),
        ("ring,speed=3", "'speed' is no parameter"),
        ("dgx-h100,nvlnk=3", "nvlink"),
        ("torus,shape=0x4", "lengths from 1 on"),
        ("dgx-1v,local=4", "those of 8 GPUs"),
        ("rails,fabric=ring", "rails, switch, fat-tree"),
        ("ring,bandwidth", "should be key=value"),
        ("dgx-h100,local=0", "from 1 on"),
        ("rails,latency=fast", "1us"),
        ("fat-tree,routing=best", "fixed, random"),
        ("nowhere.json", "unknown"),
        ("ring,bandwidth=inf", "above 0"),
        ("ring,bandwidth=nan", "above 0"),
        ("fat-tree,oversubscription=nan", "from 1 on"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        network(text, nodes=3)


@pytest.mark.parametrize(("ranks", "words"), [(0, "ranks=0"), (9, "more than the 8 devices"), (-1, "ranks=-1")])
def test_ranks_that_do_not_fit(ranks: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        find_machine("dgx-h100").network(nodes=1, ranks=ranks)


@pytest.mark.parametrize("nodes", [0, -2])
def test_nodes_that_make_no_sense(nodes: int) -> None:
    with pytest.raises(ValueError, match=f"nodes={nodes}"):
        find_machine("dgx-h100").network(nodes=nodes)


def test_an_order_must_be_a_permutation() -> None:
    assert find_machine("ring").network(ranks=3, order=[2, 0, 1]).devices == ["gpu2", "gpu0", "gpu1"]
    with pytest.raises(ValueError, match="not a permutation"):
        find_machine("ring").network(ranks=3, order=[2, 0, 2])


@pytest.mark.parametrize("machine", list(PRESETS))
def test_every_route_is_a_shortest_path(machine: str) -> None:
    """Against networkx, on graphs in which devices pass nothing on (where that is possible)."""
    found = network(machine, nodes=2) if PRESETS[machine].kind == "cluster" else network(machine)
    ranks = range(0, len(found.devices), max(1, len(found.devices) // 9))
    for a in ranks:
        for b in ranks:
            if a == b:
                continue
            route = [found.names[link].split("->") for link in found.route(a, b)]
            assert route[0][0] == found.devices[a]
            assert route[-1][1] == found.devices[b]
            assert all(one[1] == other[0] for one, other in pairwise(route))
            devices = set(found.graph.nodes) - {n for n, kind in found.graph.nodes(data="kind") if kind != "device"}
            allowed = found.graph.subgraph(set(found.graph) - devices | {found.devices[a], found.devices[b]})
            if nx.has_path(allowed, found.devices[a], found.devices[b]):
                assert len(route) == nx.shortest_path_length(allowed, found.devices[a], found.devices[b])
            else:
                assert len(route) == nx.shortest_path_length(found.graph, found.devices[a], found.devices[b])


def test_random_routes_spread_and_repeat() -> None:
    def routes(seed: int) -> list[tuple[int, ...]]:
        found = find_machine("fat-tree,leaf=8,spines=4,routing=random").network(ranks=64, seed=seed)
        return [found.route(a, b) for a in range(8) for b in range(8, 64)]

    assert routes(1) == routes(1)
    assert routes(1) != routes(2)
    spines = {link for route in routes(1) for link in route}
    assert len(spines) == 8 + 4 + 28 + 56  # every uplink of leaf 0, every downlink of the others


def test_ranks_are_spread_over_nodes() -> None:
    for ranks, shares in ((8, [2, 2, 2, 2]), (9, [3, 2, 2, 2]), (5, [2, 1, 1, 1]), (10, [3, 3, 2, 2])):
        devices = find_machine("dgx-a100").network(nodes=4, ranks=ranks).devices
        assert devices == [f"node{node}.gpu{gpu}" for node, share in enumerate(shares) for gpu in range(share)]


def test_shared_nics_are_reached_over_the_pcie_of_the_gpu() -> None:
    found = find_machine("dgx-h100,nics=4,nic=25").network(nodes=2)
    assert found.graph["node0.gpu0"]["node0.nic0"]["bandwidth"] == 48e9
    assert found.graph["node0.nic0"]["rail0"]["bandwidth"] == 25e9


@pytest.mark.parametrize("machine", list(PRESETS))
def test_a_machine_file_says_the_same(machine: str, tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    path.write_text(json.dumps(to_dict(PRESETS[machine])))
    back = read_machine(path)
    assert set(back.parameters) == set(PRESETS[machine].parameters)
    for key, value in PRESETS[machine].parameters.items():
        assert back.parameters[key] == (value if isinstance(value, str | dict) else pytest.approx(value))
    assert (back.costs.base, back.costs.overhead) == (PRESETS[machine].costs.base, PRESETS[machine].costs.overhead)
    assert back.costs.gamma == pytest.approx(PRESETS[machine].costs.gamma)
    assert back.costs.cores == PRESETS[machine].costs.cores


def test_a_graph_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    links = [["a", "s", 10, "1us"], ["b", "s", 10, "1us"], ["b", "c", 5]]
    path.write_text(json.dumps({"kind": "graph", "devices": ["a", "b", "c"], "links": links}))
    found = find_machine(str(path)).network()
    assert [found.names[link] for link in found.route(0, 2)] == ["a->s", "s->b", "b->c"]
    path.write_text('{"kind": "graph", "devices": ["a", "b"], "links": [["a", "s", 1], ["b", "t", 1]]}')
    with pytest.raises(ValueError, match="no way from a to b"):
        find_machine(str(path)).network().route(0, 1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"kind": "clster"}', "use cluster"),
        ('{"kind": "ring",\n "parameters": {', "line 2"),
        ('{"kid": 1}', "'kid' is no key"),
        ('{"kind": "graph", "devices": ["a", "a"]}', "once"),
        ('{"kind": "graph", "devices": ["a"], "links": [["a"]]}', "links[0]"),
        ('{"parameters": 3}', "should be an object"),
        ('{"parameters": {"links": {"0": 1}, "node": "linked"}}', "links"),
        ('{"costs": {"base": "-1us"}}', "base"),
        ('{"parameters": {"nic": [1]}}', "nic"),
        ("{}x", "line 1"),
        ("[]", "matrix"),
        ('{"parameters": {"levels": 3}}', "levels"),
        ('{"kind": ["ring"]}', "unknown"),
        ('{"kind": "graph"}', "devices"),
        ('{"kind": "graph", "devices": ["a"], "links": 3}', "links"),
        ('{"costs": {"gamma": "x"}}', "gamma"),
    ],
)
def test_a_broken_file_is_refused_with_its_place(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=re.escape(words)):
        find_machine(str(path)).network()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["kind", "parameters", "costs", "nic", "links", "local", "base", "latency", "levels", "x", "gpu"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(["kind", "parameters", "costs", "name", "gpu", "devices", "links"]), JSON))
def test_any_object_is_a_machine_or_a_value_error(said: dict[str, object]) -> None:
    with contextlib.suppress(ValueError):  # and nothing else
        assert from_dict(said).network(nodes=2).devices


def matrix(*rows: str) -> str:
    names = [f"GPU{i}" for i in range(len(rows))]
    return "\n".join(
        ["\t" + "\t".join(names), *(f"{n}\t" + "\t".join(r.split()) for n, r in zip(names, rows, strict=True))]
    )


def test_nvlinks_of_a_matrix_are_links_or_a_switch() -> None:
    pair, notes = machine_of(read_topo(matrix("X NV4", "NV4 X")), "pair", "a100")
    assert pair.parameters["links"] == {(0, 1): 4}
    assert pair.network().capacity[0] == pytest.approx(4 * 25e9 * 0.783)
    assert not notes
    rows = [" ".join("X" if i == j else "NV12" for j in range(8)) for i in range(8)]
    box, notes = machine_of(read_topo(matrix(*rows)), "box")
    assert box.parameters["node"] == "nvswitch"
    assert box.parameters["nvlink"] == pytest.approx(12 * 25e9 * 0.783)
    assert any("taken for a100" in note for note in notes)
    assert any("NVSwitches" in note for note in notes)


def test_pcie_levels_of_a_matrix_are_a_tree() -> None:
    machine, _ = machine_of(
        read_topo(matrix("X PIX SYS SYS", "PIX X SYS SYS", "SYS SYS X PHB", "SYS SYS PHB X")), "box"
    )
    found = machine.network()
    assert [found.names[link] for link in found.route(0, 1)] == ["gpu0->pix0", "pix0->gpu1"]
    assert [found.names[link] for link in found.route(0, 3)] == ["gpu0->pix0", "pix0->sys0", "sys0->phb0", "phb0->gpu3"]
    with pytest.raises(ValueError, match="gpu 'rtx' is unknown"):
        machine_of(read_topo(matrix("X PIX", "PIX X")), "box", "rtx")


def test_pairs_that_a_matrix_hides_are_said() -> None:
    cut = "\n".join(matrix("X PIX SYS", "PIX X SYS", "SYS SYS X").split("\n")[:2])
    machine, notes = machine_of(read_topo(cut), "cut")
    assert any("1 pairs of GPUs are not in the matrix" in note for note in notes)
    assert machine.network().route(1, 2)


def test_a_wrong_value_in_a_file_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text('{"kind": "cluster",\n "parameters": {\n  "local": 4,\n  "nic": "fast"}}')
    with pytest.raises(ValueError, match=r"m\.json, line 4: nic 'fast'"):
        find_machine(str(path))
