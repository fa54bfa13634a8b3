"""What is inside a machine with several GPUs: each a plain function that adds one node to a graph and tells its ports.

``nvswitch`` (DGX-2 and later: every GPU at full speed to every other), ``linked`` (DGX-1V: some pairs), ``sockets``
(GPUs in pairs below PCIe switches), ``tree`` (what a topology matrix says), ``shared_cores`` (ranks on loopback).

GPUs reach the outside through NICs. With one NIC a GPU, the link from the GPU to the fabric stands for both; with
fewer, each NIC is a node of its own that its GPUs share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .graph import join
from .topology import Port

if TYPE_CHECKING:
    import networkx as nx

# DGX-1V, NVLinks between GPUs: two quads of 4 + 6 + 2, joined face to face (NVIDIA's white paper on Tesla V100, 2017).
CUBE_MESH = {
    (0, 1): 1, (0, 2): 1, (0, 3): 2, (0, 4): 2, (1, 2): 2, (1, 3): 1, (1, 5): 2, (2, 3): 2, (2, 6): 1, (3, 7): 1,
    (4, 5): 1, (4, 6): 1, (4, 7): 2, (5, 6): 2, (5, 7): 1, (6, 7): 2,
}  # fmt: skip


def gpus(graph: nx.DiGraph, prefix: str, local: int) -> list[str]:
    names = [f"{prefix}gpu{i}" for i in range(local)]
    graph.add_nodes_from(names, kind="device")
    return names


def nics_of(graph: nx.DiGraph, prefix: str, names: Sequence[str], nics: int, nic: float, pcie: float) -> list[Port]:
    """``nics`` ports for these GPUs: one each, or NICs that neighbours share through PCIe."""
    if nics >= len(names):
        return [Port(name, i, nic * nics / len(names)) for i, name in enumerate(names)]
    for i, name in enumerate(names):
        graph.add_node(f"{prefix}nic{i * nics // len(names)}", kind="nic")
        join(graph, name, f"{prefix}nic{i * nics // len(names)}", pcie)
    return [Port(f"{prefix}nic{i}", i, nic) for i in range(nics)]


def nvswitch(graph: nx.DiGraph, prefix: str, local: int, nvlink: float, latency: float) -> list[str]:
    """All GPUs on one switch that never blocks (several NVSwitches side by side are one)."""
    names = gpus(graph, prefix, local)
    graph.add_node(f"{prefix}nvswitch", kind="switch")
    for name in names:
        join(graph, name, f"{prefix}nvswitch", nvlink, latency / 2)
    return names


def linked(
    graph: nx.DiGraph, prefix: str, local: int, links: dict[tuple[int, int], int], nvlink: float, latency: float
) -> list[str]:
    """GPUs joined by ``links[a, b]`` NVLinks of ``nvlink`` bytes a second each."""
    names = gpus(graph, prefix, local)
    for (a, b), number in links.items():
        join(graph, names[a], names[b], number * nvlink, latency)
    return names


def sockets(
    graph: nx.DiGraph, prefix: str, names: Sequence[str], pcie: float, socket: float, latency: float, pair: int = 2
) -> None:
    """PCIe below existing GPUs: ``pair`` GPUs a switch, half of the switches a socket, and what joins the sockets."""
    half = (len(names) + 1) // 2
    for number in range(1 if len(names) == 1 else 2):
        graph.add_node(f"{prefix}cpu{number}", kind="cpu")
    for i, name in enumerate(names):
        below = f"{prefix}pcie{i // pair}"
        if below not in graph:
            graph.add_node(below, kind="switch")
            join(graph, below, f"{prefix}cpu{i // half}", pcie, latency / 4)
        join(graph, name, below, pcie, latency / 4)
    if len(names) > 1:
        join(graph, f"{prefix}cpu0", f"{prefix}cpu1", socket, latency / 4)


def tree(
    graph: nx.DiGraph,
    prefix: str,
    members: Sequence[str],
    levels: Sequence[tuple[str, Sequence[Sequence[str]], float]],
    latency: float,
) -> None:
    """What joins ``members`` beside NVLink, from the nearest level to the farthest.

    Args:
        levels: (name, groups of members that this level joins, bandwidth of each group's links).
    """
    top = {member: member for member in members}
    for name, groups, bandwidth in levels:
        number = 0
        for group in groups:
            below = sorted({top[member] for member in group})
            if len(below) < 2:  # a nearer level has joined them
                continue
            node = f"{prefix}{name}{number}"
            number += 1
            graph.add_node(node, kind="cpu" if name in ("node", "sys") else "switch")
            for other in below:
                join(graph, other, node, bandwidth, latency / 4)
            for member in group:
                top[member] = node


def shared_cores(graph: nx.DiGraph, prefix: str, local: int, bandwidth: float, cores: int, latency: float) -> list[str]:
    """Ranks on one host: what moves between them is copied by the cores that they share."""
    names = gpus(graph, prefix, local)
    graph.add_nodes_from([f"{prefix}in", f"{prefix}out"], kind="switch")
    for name in names:
        graph.add_edge(name, f"{prefix}in", bandwidth=bandwidth, latency=latency / 2)
        graph.add_edge(f"{prefix}out", name, bandwidth=bandwidth, latency=latency / 2)
    graph.add_edge(f"{prefix}in", f"{prefix}out", bandwidth=bandwidth * cores, latency=0.0, name=f"{prefix}cores")
    return names
