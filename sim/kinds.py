"""The kinds of machines: each a function that builds a graph and returns the devices of every node.

Parameters are in SI units; their names are the keys of ``--machine NAME,key=value``. ``nodes`` and ``ranks`` are what
the user asked for, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import TYPE_CHECKING

from . import nodes as node_kinds
from . import topology
from .graph import join
from .topology import Port

if TYPE_CHECKING:
    import networkx as nx

MOST_DEVICES, MOST_FULL = 1 << 17, 1 << 11  # a full graph has a link a pair
Latency = tuple[float, float]  # seconds between two devices: inside a node, and between nodes
Devices = list[list[str]]  # of each node
Kind = Callable[..., Devices]


def _one_each(build: Callable[..., None]) -> Kind:
    """A topology whose nodes are single devices: as many as there are ranks, nodes, or 8."""

    def kind(
        graph: nx.DiGraph,
        nodes: int | None,
        ranks: int | None,
        devices: int = 0,
        bandwidth: float = 50e9,
        latency: Latency = (1e-6, 1e-6),
    ) -> Devices:
        count = devices or max(nodes or 0, ranks or 0) or 8
        _check_count(count, MOST_FULL if build is topology.full else MOST_DEVICES)
        build(graph, count, bandwidth, latency[0])
        return [[f"gpu{i}"] for i in range(count)]

    return kind


def _torus(
    graph: nx.DiGraph,
    nodes: int | None,
    ranks: int | None,
    shape: tuple[int, ...] = (4, 4),
    bandwidth: float = 50e9,
    latency: Latency = (1e-6, 1e-6),
) -> Devices:
    _no_nodes("a torus", nodes, "its shape says how many devices it has")
    _check_count(prod(shape))
    topology.torus(graph, shape, bandwidth, latency[0])
    return [[node] for node in graph]


def _cluster(
    graph: nx.DiGraph,
    nodes: int | None,
    ranks: int | None,
    node: str = "nvswitch",
    local: int = 8,
    nvlink: float = 450e9,
    pcie: float = 24e9,
    socket: float = 16e9,
    fabric: str = "rails",
    nics: int = 0,
    nic: float = 50e9,
    latency: Latency = (3e-6, 8e-6),
    leaf: int = 0,
    oversubscription: float = 1.0,
    spines: int = 0,
    cables: int = 1,
    k: int = 0,
    routers: int = 4,
    links: Mapping[tuple[int, int], int] | None = None,
    levels: tuple[tuple[str, tuple[tuple[int, ...], ...], float], ...] = (),
) -> Devices:
    """Machines with ``local`` GPUs each, joined by a fabric."""
    hosts = k**3 // 4 if k else 0
    count = nodes or (hosts and hosts // local) or -(-(ranks or (8 if local == 1 else 1)) // local)
    _check_count(count * local)
    inside, outside = latency
    devices, ports = [], []
    for number in range(count):
        prefix = f"node{number}." if count > 1 else ""
        if node == "nvswitch" and local > 1:
            names = node_kinds.nvswitch(graph, prefix, local, nvlink, inside)
        elif node == "linked":
            names = node_kinds.linked(graph, prefix, local, dict(links or {}), nvlink, inside)
        else:
            names = node_kinds.gpus(graph, prefix, local)
        if levels:
            joined = [(name, [[names[i] for i in group] for group in groups], width) for name, groups, width in levels]
            node_kinds.tree(graph, prefix, names, joined, inside)
        elif node in ("linked", "pcie"):
            node_kinds.sockets(graph, prefix, names, pcie, socket, inside)
        if count > 1:
            ports.extend(node_kinds.nics_of(graph, prefix, names, nics or local, nic, pcie))
        devices.append(names)
    if count > 1:
        _join(graph, ports, fabric, outside, leaf, oversubscription, spines, cables, k, routers)
    return devices


def _join(
    graph: nx.DiGraph,
    ports: list[Port],
    fabric: str,
    latency: float,
    leaf: int,
    oversubscription: float,
    spines: int,
    cables: int,
    k: int,
    routers: int,
) -> None:
    if fabric == "rails":
        topology.rails(graph, ports, latency, spines)
    elif fabric == "switch":
        topology.join_all(graph, ports, latency)
    elif fabric == "dragonfly":
        topology.dragonfly(graph, ports, latency, routers, leaf or 4)
    elif k:
        if k < 2 or k % 2:
            raise ValueError(f"k={k}: a k-ary fat tree has switches with an even number of ports")
        if len(ports) > k**3 // 4:
            raise ValueError(f"k={k}: the tree has {k**3 // 4} ports, but the nodes bring {len(ports)}")
        topology.k_ary_fat_tree(graph, ports, latency, k)
    else:
        leaf = leaf or min(32, len(ports))
        topology.fat_tree(graph, ports, latency, leaf, spines or max(1, round(leaf / oversubscription)), cables)


def _shared_cores(
    graph: nx.DiGraph,
    nodes: int | None,
    ranks: int | None,
    local: int = 0,
    bandwidth: float = 2.5e9,
    cores: int = 2,
    latency: Latency = (22e-6, 22e-6),
) -> Devices:
    _no_nodes("this host", nodes, "local says how many ranks it has")
    local = local or ranks or 4
    _check_count(local)
    return [node_kinds.shared_cores(graph, "", local, bandwidth, cores, latency[0])]


def _graph(
    graph: nx.DiGraph,
    nodes: int | None,
    ranks: int | None,
    devices: tuple[str, ...] = (),
    links: tuple[tuple[str, str, float, float], ...] = (),
) -> Devices:
    """As a file lists it."""
    _no_nodes("this graph", nodes, "its file lists every device")
    graph.add_nodes_from(devices, kind="device")
    for a, b, bandwidth, latency in links:
        for name in (a, b):
            if name not in graph:
                graph.add_node(name, kind="switch")
        join(graph, a, b, bandwidth, latency)
    return [[name] for name in devices]


def _no_nodes(what: str, nodes: int | None, instead: str) -> None:
    if nodes not in (None, 1):
        raise ValueError(f"nodes={nodes}: {what} is one; {instead}")


def _check_count(devices: int, most: int = MOST_DEVICES) -> None:
    if devices > most:
        raise ValueError(f"{devices} devices are too many to simulate: take at most {most}")


MORE = {  # how to have more devices
    "torus": "give a larger shape=…",
    "loopback": "give a larger local=…",
    "graph": "list more in the file",
    "line": "give a larger devices=…",
    "ring": "give a larger devices=…",
    "full": "give a larger devices=…",
    "switch": "give a larger devices=…",
}
KINDS: dict[str, Kind] = {
    "line": _one_each(topology.line),
    "ring": _one_each(topology.ring),
    "full": _one_each(topology.full),
    "switch": _one_each(topology.switch),
    "torus": _torus,
    "cluster": _cluster,
    "loopback": _shared_cores,
    "graph": _graph,
}

NODES = ("nvswitch", "linked", "pcie", "alone")
FABRICS = ("rails", "switch", "fat-tree", "dragonfly")
