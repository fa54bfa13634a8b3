"""Where things run: the one noun behind ``--machine NAME|FILE[,key=value…]``, with ``--nodes``.

A machine is a *kind* (which function builds its graph), the parameters of that function, and the constants of the cost
model. Presets are kinds with parameters; a file says the same in JSON::

    {"name": "two boxes", "kind": "cluster", "parameters": {"local": 4, "nvlink": 300, "nic": 25, "latency": "1us/5us"},
     "costs": {"base": "8us", "gamma": 1200}, "gpu": "a100"}

or lists its own links: ``{"kind": "graph", "devices": ["a", "b"], "links": [["a", "b", 50, "1us"]]}`` (GB/s, latency).
"""

from __future__ import annotations

import difflib
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any

from . import nodes as node_kinds
from . import topology
from .graph import ROUTINGS, Network, join
from .topology import Port
from .units import parse_bandwidth, parse_time

if TYPE_CHECKING:
    import networkx as nx

MOST_DEVICES, MOST_FULL = 1 << 17, 1 << 11  # a full graph has a link a pair
Latency = tuple[float, float]  # seconds between two devices: inside a node, and between nodes


@dataclass(frozen=True)
class Costs:
    """What is not in the graph, as in ``collectives.cost.Machine``: seconds, and seconds a byte.

    base: once a collective; overhead: once a message; gamma: a byte combined; cores: that the ranks of a host share (0:
    each has its own).
    """

    base: float = 0.0
    overhead: float = 0.0
    gamma: float = 0.0
    cores: int = 0


@dataclass(frozen=True)
class Protocol:
    """One way in which NCCL carries a collective, with its constants; see :mod:`sim.nccl`.

    name: ``ALGORITHM/PROTOCOL``, like ``ring/LL``; base: seconds, once; inside, between: seconds a hop inside a node
    and from node to node; share: of the links' bandwidth; fill: seconds that one more piece of the data costs; least,
    below: bytes, the sizes for which it is there.
    """

    name: str
    base: float = 0.0
    inside: float = 0.0
    between: float = 0.0
    share: float = 1.0
    fill: float = 0.0
    least: float = 0.0
    below: float = math.inf

    @property
    def algorithm(self) -> str:
        return self.name.partition("/")[0]


@dataclass(frozen=True)
class Machine:
    """See above. ``parameters`` are in SI units; ``source`` says where the numbers come from."""

    name: str
    kind: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    costs: Costs = Costs()
    gpu: str = ""
    source: str = ""
    protocols: tuple[Protocol, ...] = ()

    def network(
        self, nodes: int | None = None, ranks: int | None = None, order: list[int] | None = None, seed: int = 0
    ) -> Network:
        """The graph for so many nodes, and the devices of so many ranks.

        Args:
            nodes: 1 by default, or as many as ``ranks`` need.
            ranks: every device by default; fewer are spread evenly over the nodes, first devices first.
            order: ``order[i]`` is the device of rank i, numbered as they are by default.

        Raises:
            ValueError: more ranks than devices, an order that is no permutation, or parameters that make no sense.
        """
        if nodes is not None and nodes < 1:
            raise ValueError(f"nodes={nodes}: give at least 1")
        if ranks is not None and ranks < 1:
            raise ValueError(f"ranks={ranks}: give at least 1")
        graph = topology.empty()
        parameters = dict(self.parameters)
        routing = parameters.pop("routing", "fixed")
        devices = KINDS[self.kind](graph, nodes, ranks, **parameters)
        ranks = sum(map(len, devices)) if ranks is None else ranks
        if ranks > sum(map(len, devices)):
            hint = MORE.get(self.kind, "give more --nodes")
            raise ValueError(f"ranks={ranks} are more than the {sum(map(len, devices))} devices of {self.name}: {hint}")
        each, more = divmod(ranks, len(devices))
        shares = [each + (number < more) for number in range(len(devices))]
        chosen = [device for node, share in zip(devices, shares, strict=True) for device in node[:share]]
        if order is not None:
            if sorted(order) != list(range(ranks)):
                raise ValueError(f"order={order} is not a permutation of ranks 0 to {ranks - 1}")
            chosen = [chosen[i] for i in order]
        return Network(graph, chosen, routing, seed)


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


def parse_parameter(kind: str, name: str, text: Any) -> Any:
    """A parameter of a kind, from what people write.

    Raises:
        ValueError: an unknown name (the valid ones are listed), or a value that is not of its form.
    """
    known = [p for p in inspect.signature(KINDS[kind]).parameters if p not in ("graph", "nodes", "ranks")]
    known = ["routing", *known]
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3) or known
        raise ValueError(f"{name!r} is no parameter of a {kind}: use {', '.join(near)}")
    if name in ("links", "levels"):
        return _structure(name, text)
    text = str(text)
    if name in ("bandwidth", "nvlink", "nic", "pcie", "socket"):
        return parse_bandwidth(text, name)
    if name == "latency":
        inside, _, outside = text.partition("/")
        return parse_time(inside, name), parse_time(outside or inside, name)
    if name == "shape":
        lengths = text.lower().split("x")
        if (
            not all(length.isascii() and length.isdigit() and int(length) for length in lengths)
            or not 1 <= len(lengths) <= 3
        ):
            raise ValueError(f"shape={text!r}: write lengths from 1 on like 4x4 or 4x4x4")
        return tuple(map(int, lengths))
    choices = {"routing": ROUTINGS, "node": NODES, "fabric": FABRICS}
    if name in choices:
        if text not in choices[name]:
            raise ValueError(f"{name}={text!r} is unknown: use one of {', '.join(choices[name])}")
        return text
    try:
        number = float(text) if name == "oversubscription" else int(text)
    except ValueError:
        number = -1
    if not number >= (0 if name in ("nics", "spines", "k", "leaf", "devices") else 1) or number > 1 << 20:
        raise ValueError(f"{name}={text!r}: give a number from 1 on (and at most {1 << 20})")
    return number


def _structure(name: str, said: Any) -> Any:
    """What only a file can say: ``links`` as ``{"0-1": 2}``, ``levels`` as ``[[name, [[0, 1], [2, 3]], GB/s]]``."""
    try:
        if name == "links":
            pairs = {tuple(map(int, pair.split("-"))): int(number) for pair, number in said.items()}
            if any(len(pair) != 2 or number < 1 for pair, number in pairs.items()):
                raise ValueError
            return pairs
        if name == "levels":
            return tuple(
                (str(level), tuple(tuple(map(int, group)) for group in groups), parse_bandwidth(str(width)))
                for level, groups, width in said
            )
    except (AttributeError, OverflowError, TypeError, ValueError):
        pass
    raise ValueError(f'{name}={said!r}: write links as {{"0-1": 2}}, levels as [["pix", [[0, 1]], 24]]')


NODES = ("nvswitch", "linked", "pcie", "alone")
FABRICS = ("rails", "switch", "fat-tree", "dragonfly")


def changed(machine: Machine, values: Mapping[str, Any]) -> Machine:
    """The machine with other parameters or costs, as people write them.

    Raises:
        ValueError: see :func:`parse_parameter`.
    """
    parameters, costs = dict(machine.parameters), machine.costs
    for key, value in values.items():
        if key == "base":
            costs = replace(costs, base=parse_time(str(value), key))
        elif key == "overhead":
            costs = replace(costs, overhead=parse_time(str(value), key))
        elif key == "gamma":
            costs = replace(costs, gamma=0.0 if str(value) == "0" else 1 / parse_bandwidth(str(value), key))
        else:
            parameters[key] = parse_parameter(machine.kind, key, value)
            if key == "cores":
                costs = replace(costs, cores=parameters[key])
    if machine.kind == "cluster":
        _check_indices(parameters)
    return replace(machine, parameters=parameters, costs=costs)


def _check_indices(parameters: Mapping[str, Any]) -> None:
    """The GPUs that ``links`` and ``levels`` name are those of a node."""
    local = parameters.get("local", 8)
    linked = parameters.get("node") == "linked"
    named = [gpu for pair in parameters.get("links") or () for gpu in pair] if linked else []
    if linked and (not named or local != 1 + max(named) or min(named) < 0):
        raise ValueError(f"local={local}: the links of this machine are those of {1 + max(named, default=-1)} GPUs")
    grouped = [gpu for _, groups, _ in parameters.get("levels", ()) for group in groups for gpu in group]
    if grouped and not (min(grouped) >= 0 and max(grouped) < local):
        raise ValueError(f"levels name GPUs {min(grouped)} to {max(grouped)}: there are {local}, from 0 on")
