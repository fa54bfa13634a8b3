"""A network as a graph: devices, switches and the links between them, and who goes which way.

A graph is a ``networkx.DiGraph``. Nodes have a ``kind`` (``device``, or what else passes data on: ``switch``, ``nic``,
``cpu``), edges are links in one direction with ``bandwidth`` (bytes a second; ``nominal`` when nothing is wrong) and
``latency`` (seconds). For running it is frozen into arrays of ints.

A route has the fewest links and, of those, the ones that were built to be the fastest. A device passes on what is not
its own only where there is no other way (in a ring or a torus of devices, or to another rail of the same node). Among
ways of equal length the *routing* decides::

    fixed    destination modulo the number of ways (D-mod-k): always the same
    random   a hash of source, destination, channel and seed, as ECMP does
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import networkx as nx

ROUTINGS = ("fixed", "random")


def join(graph: nx.DiGraph, a: str, b: str, bandwidth: float, latency: float = 0.0) -> None:
    """A full-duplex link; a second one between the same two adds its bandwidth."""
    for one, other in ((a, b), (b, a)):
        total = bandwidth + (graph[one][other]["bandwidth"] if graph.has_edge(one, other) else 0.0)
        graph.add_edge(one, other, bandwidth=total, nominal=total, latency=latency)


class Network:
    """A frozen graph.

    Args:
        graph: as above.
        devices: the ranks' devices, rank 0 first.
        routing: ``fixed`` or ``random``; seed: of the hash.

    ``names``, ``capacity`` and ``latency`` are those of the links, by number.

    Raises:
        ValueError: an unknown device or routing, a link without bandwidth.
    """

    def __init__(self, graph: nx.DiGraph, devices: list[str], routing: str = "fixed", seed: int = 0) -> None:
        if routing not in ROUTINGS:
            raise ValueError(f"routing={routing!r} is unknown: use {' or '.join(ROUTINGS)}")
        self.graph, self.devices, self.routing, self.seed = graph, devices, routing, seed
        number = {node: i for i, node in enumerate(graph)}
        missing = [device for device in devices if device not in number]
        if missing:
            raise ValueError(f"device {missing[0]!r} is not in the graph")
        self._nodes = list(graph)
        self._passes = [kind != "device" for _, kind in graph.nodes(data="kind", default="device")]
        self._out: list[list[tuple[int, int]]] = [[] for _ in number]  # node → (next node, link)
        self._into: list[list[int]] = [[] for _ in number]
        self.names: list[str] = []
        self.capacity: list[float] = []
        self.latency: list[float] = []
        self._nominal: list[float] = []
        for a, b, link in graph.edges(data=True):
            if not link["bandwidth"] > 0 or link["latency"] < 0:
                raise ValueError(f"link {a}->{b}: its bandwidth must be above 0 and its latency from 0 on")
            self._out[number[a]].append((number[b], len(self.names)))
            self._into[number[b]].append(number[a])
            self.names.append(f"{a}->{b}")
            self.capacity.append(link["bandwidth"])
            self.latency.append(link["latency"])
            self._nominal.append(link.get("nominal", link["bandwidth"]))
        self._at = [number[device] for device in devices]
        self._direct = [dict(ways) for ways in self._out]
        self._away: dict[tuple[int, ...], dict[int, int]] = {}
        self._routes: dict[tuple[int, int, int], tuple[int, ...]] = {}

    def route(self, source: int, to: int, channel: int = 0) -> tuple[int, ...]:
        """The links from rank ``source`` to rank ``to``; O(switches) once a destination, then O(links) once a route.

        Raises:
            ValueError: there is no way.
        """
        key = (source, to, channel if self.routing == "random" else 0)
        route = self._routes.get(key)
        if route is None:
            route = self._routes[key] = self._walk(source, to, key[2])
        return route

    def _walk(self, source: int, to: int, channel: int) -> tuple[int, ...]:
        start, end = self._at[source], self._at[to]
        if end in self._direct[start]:
            return (self._direct[start][end],)
        away = self._distances(end)
        if not any(other in away for other, _ in self._out[start]):
            away = self._search((end,), through_devices=True)
        choice = _mix(source, to, channel, self.seed) if self.routing == "random" else to
        node, route = start, []
        while node != end:
            left = min((away[other] for other, _ in self._out[node] if other in away), default=None)
            if left is None:
                raise ValueError(
                    f"the network is not connected: there is no way from {self._nodes[start]} to {self._nodes[end]}"
                )
            ways = [(other, link) for other, link in self._out[node] if away.get(other) == left]
            fastest = max(self._nominal[link] for _, link in ways)
            ways = [way for way in ways if self._nominal[way[1]] == fastest]
            node, link = ways[choice % len(ways)]
            if self.routing == "random":
                choice = _mix(choice, node, channel, self.seed)
            else:
                choice //= len(ways)  # the next level of switches takes the next digit
            route.append(link)
        return tuple(route)

    def _distances(self, end: int) -> dict[int, int]:
        """Links left to the device ``end``, from it and from everything that passes data on."""
        access = tuple(sorted(node for node in self._into[end] if self._passes[node]))
        if access not in self._away:
            self._away[access] = self._search(access, through_devices=False)
        return {**self._away[access], end: -1}

    def _search(self, ends: tuple[int, ...], through_devices: bool) -> dict[int, int]:
        """Links left to the nearest of ``ends``."""
        away = dict.fromkeys(ends, 0)
        queue = deque(ends)
        while queue:
            node = queue.popleft()
            for before in self._into[node]:
                if before not in away and (through_devices or self._passes[before]):
                    away[before] = away[node] + 1
                    queue.append(before)
        return away

    def port(self, ranks: Sequence[int]) -> tuple[float, float]:
        """What can leave the devices of these ranks together, and what can reach them, in bytes a second.

        Several ranks stand for the node that their devices belong to (:func:`node_of`), with all that is in it.
        """
        inside = {self._at[rank] for rank in ranks}
        if len(ranks) > 1:
            home = node_of(self.devices[ranks[0]])
            inside |= {i for i, name in enumerate(self._nodes) if node_of(name) == home}
        out = into = 0.0
        for node in inside:
            out += sum(self.capacity[link] for other, link in self._out[node] if other not in inside)
            into += sum(
                self.capacity[self._direct[before][node]] for before in self._into[node] if before not in inside
            )
        return out, into


def node_of(name: str) -> str:
    """The node that a device belongs to, by its name: ``node3`` of ``node3.gpu1``; nothing where there is one."""
    return name.rpartition(".")[0]


def _mix(*numbers: int) -> int:
    """A hash that is the same in every process (64-bit FNV-1a over the numbers, then mixed)."""
    value = 0xCBF29CE484222325
    for number in numbers:
        value = ((value ^ (number & 0xFFFFFFFF)) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
        value ^= value >> 29
    value = (value * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    return (value ^ (value >> 32)) & 0x7FFFFFFF


def describe(graph: nx.DiGraph) -> dict[str, Any]:
    """How many devices, switches and cables it has."""
    kinds: dict[str, int] = {}
    for _, kind in graph.nodes(data="kind", default="device"):
        kinds[kind] = kinds.get(kind, 0) + 1
    return {**kinds, "links": graph.number_of_edges() // 2}
