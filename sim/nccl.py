"""How long NCCL itself takes: the least over its algorithms and protocols, each from the links of the machine.

::

    links = seconds on the links / share
    time  = base + hops inside a node · inside + hops between nodes · between + links + 2·√(fill · links)

    algorithm    hops inside, between             a byte of S on the links
    ring         S's way round, without  and      what each rank sends, at the speed of all rings together
                 with those between nodes
    tree         2(local − 1), 2·log2(nodes)      2 inside (up, and down); 1 through the NICs of 2 nodes, 2 of more
    nvls         0                                1 + 1/n: a rank sends S to the switch, which adds, and its part to all
    nvls_tree    0, 2·log2(nodes)                 as nvls inside, as tree through the NICs
    direct       1                                each to each, simulated (all_to_all, gather, scatter)

``base``, ``inside``, ``between`` and ``share`` are those of a :class:`sim.machine.Protocol`: NCCL switches from LL (few
hops' latency, a part of the bandwidth) over LL128 to Simple as messages grow. Links, rings and their speeds are the
machine's: rings follow NVLink where GPUs are joined directly, and leave a node through each of its NICs. Data move in
pieces, one behind the other; each costs ``fill``, and fewer take longer to pass the first: the root is what the best
number of pieces leaves of both.

Sources: NCCL 2.27, ``src/graph/tuning.cc``, for the form and for most constants; Sanders, Speck and Träff, "Two-tree
algorithms for full bandwidth broadcast, reduction and scan", 2009, for trees and pieces. How fast rings are, NCCL's
tuner estimates; here it is simulated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from collectives.contract import contract_of
from collectives.registry import find

from .collective import simulate
from .faults import Faults
from .graph import Network, node_of
from .machine import Costs, Machine, Protocol
from .reading import Step, read_first
from .rings import arcs_of, chain
from .run import Run

LINKS = ("nvlink", "pcie", "socket", "nic")  # parameters of a machine that are bandwidths
RINGS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
MOST_NVLS = 8  # ranks; 72 reach the same bus bandwidth as 8 (GB200, nccl-tests' logs)


@dataclass(frozen=True)
class Estimate:
    """One way and its time; ``name`` is that of the protocol. Seconds."""

    name: str
    latency_s: float
    transfer_s: float

    @property
    def time_s(self) -> float:
        return self.latency_s + self.transfer_s


class Nccl:
    """NCCL on so many ranks of a machine; ask :meth:`estimates` or :meth:`best`.

    Args:
        nodes, ranks: as in :meth:`sim.machine.Machine.network`.

    Raises:
        ValueError: a machine without protocols, or ranks that it has not.
    """

    def __init__(self, machine: Machine, nodes: int | None = None, ranks: int | None = None) -> None:
        if not machine.protocols:
            raise ValueError(f"machine {machine.name} has no protocols: use a preset with GPUs, or calibrate one")
        self.machine = machine
        still = _still(machine)
        network = still.network(nodes, ranks)
        self.ranks = len(network.devices)
        homes = [node_of(device) for device in network.devices]
        self.nodes = len(set(homes))
        self.local = max(homes.count(home) for home in set(homes))
        if self.nodes > 2:  # a ring sees its own node and the next: two are enough
            network = still.network(2, 2 * self.local)
        self.network = network
        self.bus = bus_bandwidth(network) if self.ranks > 1 else 0.0
        self.inside = bus_bandwidth(still.network(1, self.local)) if self.local > 1 else 0.0
        if self.local > 1:  # a GPU passes on no more than it can inside its node
            self.bus = min(self.bus, self.inside)
        self._direct: dict[str, float] = {}

    def best(self, collective: str, nbytes: float, algorithm: str = "") -> Estimate:
        """The fastest way, or the fastest with this algorithm.

        Raises:
            ValueError: NCCL on this machine does not have it.
        """
        found = [
            e
            for e in self.estimates(collective, nbytes)
            if e.name.partition("/")[0] == (algorithm or e.name.partition("/")[0])
        ]
        if not found:
            raise ValueError(f"{self.machine.name} has no protocol for {algorithm or collective}")
        return found[0]

    def estimates(self, collective: str, nbytes: float) -> list[Estimate]:
        """Every way in which NCCL could carry ``nbytes`` (the whole buffer), the fastest first."""
        if self.ranks == 1:
            return [Estimate("none", 0.0, 0.0)]
        found = [self._estimate(protocol, collective, nbytes) for protocol in self.machine.protocols]
        return sorted((e for e in found if e is not None), key=lambda e: e.time_s)

    def _estimate(self, protocol: Protocol, collective: str, nbytes: float) -> Estimate | None:
        hops = self.hops(protocol.algorithm, collective)
        seconds = self.seconds_a_byte(protocol.algorithm, collective)
        if hops is None or seconds is None or not protocol.least <= nbytes < protocol.below:
            return None
        latency = protocol.base + hops[0] * protocol.inside + hops[1] * protocol.between
        links = nbytes * seconds / protocol.share
        return Estimate(protocol.name, latency, links + 2 * math.sqrt(protocol.fill * links))

    def hops(self, algorithm: str, collective: str) -> tuple[float, float] | None:
        """How often data are passed on inside a node and between nodes, one after the other; None: not available."""
        up_and_down = 2 * math.ceil(math.log2(self.nodes))
        if algorithm == "ring" and collective in RINGS:
            steps = len(read_first(find(collective, "ring"), self.ranks)) if collective in RINGS[:3] else self.ranks
            between = (self.nodes - 1) * (2 if collective == "all_reduce" else 1)
            return steps - between, between
        if algorithm == "direct" and collective not in RINGS:
            return (1, 0) if self.nodes == 1 else (0, 1)
        if collective != "all_reduce":
            return None
        if algorithm == "tree":
            return 2 * (self.local - 1), up_and_down
        if (algorithm == "nvls" and self.nodes == 1) or (algorithm == "nvls_tree" and self.nodes > 1):
            return 0, up_and_down
        return None

    def seconds_a_byte(self, algorithm: str, collective: str) -> float | None:
        """Seconds on the links for a byte of the buffer; None: not available."""
        size = self.ranks
        if algorithm == "ring" and collective in RINGS:
            return contract_of(collective).factor(size) / self.bus
        if algorithm == "direct" and collective not in RINGS:
            if collective not in self._direct:
                outcome = simulate(find(collective, "direct"), self.network, 1e9)
                self._direct[collective] = outcome.time_s / 1e9 * size / len(self.network.devices)
            return self._direct[collective]
        if collective != "all_reduce" or algorithm == "ring":
            return None
        if self.nodes > 1:
            nics = (1 if self.nodes == 2 else 2) / self.network.port(range(self.local))[0]
        else:
            nics = 0.0
        if algorithm == "tree":
            return max(2 / self.inside if self.local > 1 else 0.0, nics)
        if self.local == 1:
            return None
        factor, local = contract_of(collective).factor, min(self.local, MOST_NVLS)
        return max((1 + 1 / local) / factor(local) * factor(self.local) / self.inside, nics)


def bus_bandwidth(network: Network) -> float:
    """Bytes a second that every rank passes on in rings: a step of all rings at once, on links without latency.

    Where direct links join the GPUs of a node but no ring closes over them, a tree along a chain may be faster.
    """
    orders = list(ring_orders(network))
    size, nbytes = len(network.devices), 1e9
    programs = []
    for order in orders:
        neighbours = list(zip(order, [*order[1:], order[0]], strict=True))
        for rank in range(size):
            sends = tuple((to, 1) for source, to in neighbours if source == rank)
            programs.append([Step(sends, tuple(source for source, to in neighbours if to == rank), 0)])
    seconds = Run(programs, network, nbytes, Costs(), Faults()).run()
    return max(len(orders) * nbytes / seconds, _along_a_chain(network, range(size)))


def ring_orders(network: Network) -> Iterator[list[int]]:
    """The rings that NCCL would use: closed ways past all ranks of one node, or of two.

    Inside a node of GPUs that are joined directly, as many as the links allow, each in both directions; else one. With
    two nodes, each of these once for every GPU at which it can enter the first node; it comes back the other way round.
    """
    devices = network.devices
    homes = [node_of(device) for device in devices]
    first = [rank for rank, home in enumerate(homes) if home == homes[0]]
    cycles = _cycles(network, first) or [first]
    if len(first) == len(devices):
        yield from cycles
        return
    for cycle in cycles:
        for start in range(len(first)):
            way = cycle[start:] + cycle[:start]
            yield way + [rank + len(first) for rank in reversed(way) if rank + len(first) < len(devices)]


def _cycles(network: Network, ranks: Sequence[int]) -> list[list[int]]:
    """The most closed ways past all ranks that share no direct link, each in both directions; may be none."""
    free, _ = _links(network, ranks)
    if not free:
        return []
    if len(ranks) == 2:
        return [list(ranks)] * free[ranks[0], ranks[1]]
    found = _pack(ranks, free, min(_degree(free, rank) for rank in ranks) // 2)
    return [way for cycle in found for way in (cycle, cycle[::-1])]


def _degree(free: dict[tuple[int, int], int], rank: int) -> int:
    return sum(count for pair, count in free.items() if rank in pair)


def _pack(ranks: Sequence[int], free: dict[tuple[int, int], int], most: int) -> list[list[int]]:
    """Up to ``most`` closed ways that together use no link more often than it is there."""
    best: list[list[int]] = []
    if not most:
        return best
    for cycle in _closed(ranks, free, [ranks[0]]):
        left = dict(free)
        for a, b in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
            left[min(a, b), max(a, b)] -= 1
        found = [cycle, *_pack(ranks, left, most - 1)]
        if len(found) > len(best):
            best = found
        if len(best) == most:
            break
    return best


def _closed(ranks: Sequence[int], free: dict[tuple[int, int], int], way: list[int]) -> Iterator[list[int]]:
    """Ways that go on from ``way`` past all ranks and back to its start."""
    missing = set(ranks) - set(way)
    pairs = [(min(way[-1], b), max(way[-1], b)) for b in ranks if b != way[-1]]
    for pair in pairs:
        if not free.get(pair):
            continue
        to = pair[0] + pair[1] - way[-1]
        left = {**free, pair: free[pair] - 1}
        if not missing and to == way[0]:
            yield way
        if to in missing:
            yield from _closed(ranks, left, [*way, to])


def _along_a_chain(network: Network, ranks: Sequence[int]) -> float:
    """Bus bandwidth of a tree that is a chain of direct links; 0 where a ring closes over them, or there are none."""
    free, each = _links(network, ranks)
    if not free or _cycles(network, ranks) or chain(arcs_of(free, ranks), ranks) is None:
        return 0.0
    return 2 * (len(ranks) - 1) / len(ranks) * each  # all of the data passes every link, both ways at once


def _links(network: Network, ranks: Sequence[int]) -> tuple[dict[tuple[int, int], int], float]:
    """How many direct links join two ranks, in units of the slowest; and what such a unit carries."""
    speeds: dict[tuple[int, int], float] = {}
    for a, b in combinations(ranks, 2):
        if edge := network.graph.get_edge_data(network.devices[a], network.devices[b]):
            speeds[a, b] = edge["bandwidth"]
    each = min(speeds.values(), default=0.0)
    return {pair: round(speed / each) for pair, speed in speeds.items()}, each


def _still(machine: Machine) -> Machine:
    """The machine without latency: what the links alone take."""
    return replace(machine, parameters={**machine.parameters, "latency": (0.0, 0.0)})
