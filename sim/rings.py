"""Rings through a machine's GPUs: as many as its links allow, no two in the same direction of one link.

    0 ══ 1      two links between 0 and 1, one between the others: each ring needs one link out of every GPU and one
    │    │      into it, so 2 has room for two:  0→1→3→2→0  and  0→2→3→1→0
    2 ── 3

Every ring carries its share of the data, so k rings over links of equal speed have k times the bus bandwidth of one. A
DGX-1V has 1, 2, 4, 0, 2, 4 and 6 rings on its first 2 to 8 GPUs: five are slower than four.

Up to 8 GPUs the packing is exact: an integer program over all Hamiltonian cycles, solved by HiGHS. Above, cycles are
found greedily, and again with some taken out, for a number of rounds.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

from .graph import Network

Order = tuple[int, ...]
Arc = tuple[int, int]
EXACT = 8  # GPUs: 5,040 cycles at most
ROUNDS = 200


def arcs_of(links: Mapping[Arc, int], among: Sequence[int]) -> dict[Arc, int]:
    """What full-duplex links between some GPUs offer: so many in each direction."""
    inside = {pair: number for pair, number in links.items() if number and set(pair) <= set(among)}
    return {arc: number for (a, b), number in inside.items() for arc in ((a, b), (b, a))}


def pack(arcs: Mapping[Arc, int], among: Sequence[int]) -> list[Order]:
    """The largest set of rings through all GPUs ``among`` that share no arc; each begins at the first GPU.

    Args:
        arcs: how many links lead from a to b.
        among: the GPUs, at least 1.

    Exact up to ``EXACT`` GPUs, O(n!) there; above, the best of ``ROUNDS`` greedy rounds under a fixed seed.
    """
    if len(among) < 2:
        return []
    return _exact(arcs, among) if len(among) <= EXACT else _greedy(arcs, among)


def cycles(arcs: Mapping[Arc, int], among: Sequence[int]) -> Iterator[Order]:
    """Every ring through all GPUs, once."""

    def extended(path: list[int]) -> Iterator[Order]:
        if len(path) == len(among) and arcs.get((path[-1], path[0])):
            yield tuple(path)
        for gpu in among:
            if gpu not in path and arcs.get((path[-1], gpu)):
                yield from extended([*path, gpu])

    return extended([among[0]])


def hops(order: Order) -> list[Arc]:
    """Who sends to whom in a ring."""
    return list(zip(order, [*order[1:], order[0]], strict=True))


def _exact(arcs: Mapping[Arc, int], among: Sequence[int]) -> list[Order]:
    import numpy
    from scipy.optimize import LinearConstraint, milp
    from scipy.sparse import csr_array

    found = list(cycles(arcs, among))
    if not found:
        return []
    row = {arc: i for i, arc in enumerate(arcs)}
    entries = [(row[arc], column) for column, order in enumerate(found) for arc in hops(order)]
    uses = csr_array((numpy.ones(len(entries)), tuple(numpy.array(entries).T)), shape=(len(arcs), len(found)))
    ones = numpy.ones(len(found))
    best = milp(-ones, constraints=LinearConstraint(uses, ub=list(arcs.values())), integrality=ones)
    return [order for order, times in zip(found, best.x, strict=True) for _ in range(round(times))]


def _greedy(arcs: Mapping[Arc, int], among: Sequence[int]) -> list[Order]:
    chance = random.Random(0)
    best: list[Order] = []
    for _ in range(ROUNDS):
        kept = chance.sample(best, chance.randrange(len(best))) if best else []
        left = Counter(arcs)
        left.subtract(arc for order in kept for arc in hops(order))
        while (order := _one(left, among, chance)) is not None:
            for way in (order, (order[0], *order[:0:-1])):  # links are full-duplex, so mostly both directions are free
                if all(left[arc] > 0 for arc in hops(way)):
                    kept.append(way)
                    left.subtract(hops(way))
        best = max(kept, best, key=len)  # as good as before is another place to go on from
    return best


def _one(left: Mapping[Arc, int], among: Sequence[int], chance: random.Random) -> Order | None:
    """One more ring over what is left; each GPU goes on to the one that has the fewest ways out (Warnsdorff)."""
    steps = 0

    def extended(path: list[int]) -> Order | None:
        nonlocal steps
        steps += 1
        if len(path) == len(among):
            return tuple(path) if left.get((path[-1], path[0]), 0) > 0 else None
        ahead = [gpu for gpu in among if gpu not in path and left.get((path[-1], gpu), 0) > 0]
        ways = {gpu: sum(left.get((gpu, other), 0) > 0 for other in among if other not in path) for gpu in ahead}
        for gpu in sorted(ahead, key=lambda gpu: (ways[gpu], chance.random())):
            if steps > 50 * len(among):
                return None
            if (order := extended([*path, gpu])) is not None:
                return order
        return None

    return extended([among[0]])


def chain(arcs: Mapping[Arc, int], among: Sequence[int]) -> Order | None:
    """A way through all GPUs that need not close, as a tree inside a node takes where no ring exists; None: none."""
    ways = (path for first in among for path in _paths(arcs, among, [first]))
    return next(ways, None)


def _paths(arcs: Mapping[Arc, int], among: Sequence[int], path: list[int]) -> Iterator[Order]:
    if len(path) == len(among):
        yield tuple(path)
    for gpu in among:
        if gpu not in path and arcs.get((path[-1], gpu)):
            yield from _paths(arcs, among, [*path, gpu])


@dataclass(frozen=True, slots=True)
class Load:
    """What limits rings: ``busbw`` in bytes a second, and the ``link`` that does, which ``hops`` of them cross."""

    busbw: float
    link: str
    hops: int


def load(network: Network, orders: Sequence[Order]) -> Load:
    """The bus bandwidth of rings that share the data evenly and all send at once.

    Args:
        network: its ranks are what ``orders`` number.

    A ring of n moves each byte over every hop at its rate, which is what busbw counts; O(hops × links a hop).
    """
    crossed = Counter(link for order in orders for arc in hops(order) for link in network.route(*arc))
    least = min(crossed, key=lambda link: network.capacity[link] / crossed[link])
    rate = network.capacity[least] / crossed[least]
    return Load(len(orders) * rate, network.names[least], crossed[least])


def best_order(network: Network, among: Sequence[int], groups: Sequence[Sequence[Sequence[int]]] = ()) -> Order:
    """One ring over whatever joins the ranks ``among``: the fastest, of those the one with the fewest links.

    Args:
        groups: of ranks, at each level from the nearest on; above ``EXACT`` ranks they alone decide: the ring goes
            through a group before it leaves it, so it crosses what the group shares once in each direction.
    """
    if len(among) < 2:
        return tuple(among)
    if len(among) > EXACT:
        places = {rank: [_first(rank, level) for level in reversed(groups)] for rank in among}
        return tuple(sorted(among, key=lambda rank: (places[rank], rank)))

    def cost(order: Order) -> tuple[float, int]:
        return -load(network, [order]).busbw, sum(len(network.route(*arc)) for arc in hops(order))

    return min(((among[0], *rest) for rest in permutations(among[1:])), key=cost)


def _first(rank: int, level: Sequence[Sequence[int]]) -> int:
    return min(next((group for group in level if rank in group), [rank]))


def narrowest(arcs: Mapping[Arc, int], among: Sequence[int]) -> tuple[Order, int]:
    """The group of at most half of the GPUs with the fewest links out of it, and how many these are; O(2ⁿ)."""
    groups = [group for size in range(1, len(among) // 2 + 1) for group in combinations(among, size)]
    counted = [
        (sum(number for (a, b), number in arcs.items() if a in group and b not in group), group) for group in groups
    ]
    links, group = min(counted, key=lambda found: (found[0], len(found[1])))
    return group, links
