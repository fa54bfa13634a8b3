"""Topologies: how devices are joined, each a plain function from parameters to a graph.

Two kinds. Where every node is one device: ``line``, ``ring``, ``full``, ``switch``, ``torus``. Where nodes hold several
(:mod:`sim.nodes`), a *fabric* joins the ports that they bring: ``switch``, ``rails``, ``fat_tree``, ``dragonfly``::

    switch                rails: port i of every node        fat tree: leaves of so many ports, and spines
      ┌──switch──┐          to switch i                        spine 0 ──┬── spine 1
      0  1  2  3          rail0  rail1  rail2                   leaf 0 ──┘   └── leaf 1
                           │││    │││    │││                    0 1 2 3       4 5 6 7

Bandwidths are in bytes a second and per direction, latencies in seconds; ``latency`` of a path through one switch is
half on either side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import prod
from typing import TYPE_CHECKING

from .graph import join

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True)
class Port:
    """Where a fabric may attach: a node of the graph, its number in its machine, and what it can carry."""

    node: str
    number: int
    bandwidth: float


def empty() -> nx.DiGraph:
    import networkx as nx

    return nx.DiGraph()


def devices(graph: nx.DiGraph, count: int) -> list[str]:
    """``count`` devices that are nodes of their own."""
    names = [f"gpu{i}" for i in range(count)]
    graph.add_nodes_from(names, kind="device")
    return names


def line(graph: nx.DiGraph, count: int, bandwidth: float, latency: float) -> None:
    """0 – 1 – 2 – 3, full duplex."""
    names = devices(graph, count)
    for a, b in pairwise(names):
        join(graph, a, b, bandwidth, latency)


def ring(graph: nx.DiGraph, count: int, bandwidth: float, latency: float) -> None:
    """A line whose ends are joined."""
    line(graph, count, bandwidth, latency)
    if count > 2:
        join(graph, f"gpu{count - 1}", "gpu0", bandwidth, latency)


def full(graph: nx.DiGraph, count: int, bandwidth: float, latency: float) -> None:
    """A link between any two."""
    names = devices(graph, count)
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            join(graph, a, b, bandwidth, latency)


def switch(graph: nx.DiGraph, count: int, bandwidth: float, latency: float) -> None:
    """One switch that never blocks: every device has a full-duplex port of its own."""
    join_all(graph, [Port(name, i, bandwidth) for i, name in enumerate(devices(graph, count))], latency)


def torus(graph: nx.DiGraph, shape: Sequence[int], bandwidth: float, latency: float) -> None:
    """A grid of two or three dimensions whose rows are rings; the last dimension runs fastest."""
    devices(graph, prod(shape))
    strides = [prod(shape[d + 1 :]) for d in range(len(shape))]
    for place in product(*(range(length) for length in shape)):
        here = sum(i * stride for i, stride in zip(place, strides, strict=True))
        for i, length, stride in zip(place, shape, strides, strict=True):
            if length > 2 or (length == 2 and i == 0):
                there = here + ((i + 1) % length - i) * stride
                join(graph, f"gpu{here}", f"gpu{there}", bandwidth, latency)


def join_all(graph: nx.DiGraph, ports: Sequence[Port], latency: float, name: str = "switch") -> None:
    """A switch with as many ports as needed."""
    graph.add_node(name, kind="switch")
    for port in ports:
        join(graph, port.node, name, port.bandwidth, latency / 2)


def rails(graph: nx.DiGraph, ports: Sequence[Port], latency: float, spines: int = 0) -> None:
    """Port i of every machine goes to switch i; ``spines`` join the switches, each with as much as one port."""
    for number in sorted({port.number for port in ports}):
        mine = [port for port in ports if port.number == number]
        join_all(graph, mine, latency, f"rail{number}")
        for spine in range(spines):
            graph.add_node(f"spine{spine}", kind="switch")
            join(graph, f"rail{number}", f"spine{spine}", sum(port.bandwidth for port in mine) / spines, latency / 2)


def fat_tree(graph: nx.DiGraph, ports: Sequence[Port], latency: float, leaf: int, spines: int, cables: int = 1) -> None:
    """Two levels: ``leaf`` ports a leaf switch, which has ``cables`` to each of ``spines``, as fast as a port."""
    for first in range(0, len(ports), leaf):
        name = f"leaf{first // leaf}"
        mine = ports[first : first + leaf]
        join_all(graph, mine, latency, name)
        for spine in range(spines):
            graph.add_node(f"spine{spine}", kind="switch")
            join(graph, name, f"spine{spine}", cables * mine[0].bandwidth, latency / 2)


def k_ary_fat_tree(graph: nx.DiGraph, ports: Sequence[Port], latency: float, k: int) -> None:
    """Three levels of switches with k ports: k pods of k/2 edge and k/2 aggregation switches, (k/2)² cores, k³/4 hosts.

    Source: Al-Fares, Loukissas and Vahdat, "A scalable, commodity data center network architecture", 2008.
    """
    half = k // 2
    bandwidth = ports[0].bandwidth
    for core in range(half * half):
        graph.add_node(f"core{core}", kind="switch")
    for pod in range(k):
        for i in range(half):
            edge = f"pod{pod}.edge{i}"
            first = (pod * half + i) * half
            join_all(graph, ports[first : first + half], latency, edge)
        for i in range(half):
            above = f"pod{pod}.agg{i}"
            graph.add_node(above, kind="switch")
            for j in range(half):
                join(graph, f"pod{pod}.edge{j}", above, bandwidth, latency / 2)
                join(graph, above, f"core{i * half + j}", bandwidth, latency / 2)


def dragonfly(graph: nx.DiGraph, ports: Sequence[Port], latency: float, routers: int, hosts: int) -> None:
    """Groups of ``routers``, all joined with each other, ``hosts`` ports each; one cable between any two groups.

    Source: Kim, Dally, Scott and Abts, "Technology-driven, highly-scalable dragonfly topology", 2008.
    """
    bandwidth = ports[0].bandwidth
    groups = -(-len(ports) // (routers * hosts))
    for number in range(groups * routers):
        mine = ports[number * hosts : (number + 1) * hosts]
        join_all(graph, mine, latency, f"router{number}")
        for other in range(number - number % routers, number):
            join(graph, f"router{other}", f"router{number}", bandwidth, latency / 2)
    for group in range(groups):
        for other in range(group + 1, groups):
            here = group * routers + (other - 1) % routers
            there = other * routers + group % routers
            join(graph, f"router{here}", f"router{there}", bandwidth, latency / 2)
