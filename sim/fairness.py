"""Max–min fair shares: every flow gets as much as it can without taking from one that has less.

Progressive filling. All flows grow at the same pace until a link is full; those on it stop there, the others go on::

    A carries 10, B carries 4          f2 and f3 share B: 2 each; f1 gets what is left of A: 8
    f1 on A · f2 on A and B · f3 on B

The certificate: every flow has a saturated link on which no other flow is faster. It holds for the max–min fair rates
and for no others. Source: Bertsekas and Gallager, "Data networks", 1992, section 6.5.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

TOLERANCE = 1e-9


def max_min(routes: Sequence[Sequence[int]], capacity: Sequence[float]) -> list[float]:
    """The fair rate of every flow, in the unit of ``capacity``.

    Args:
        routes: for each flow the links that it takes, each once.
        capacity: of each link by number, above 0.

    O(links of all routes · log links). A flow without links has rate infinity.
    """
    infinite = float("inf")
    users: dict[int, list[int]] = {}
    for flow, route in enumerate(routes):
        for link in route:
            if link in users:
                users[link].append(flow)
            else:
                users[link] = [flow]
    left = {link: capacity[link] for link in users}
    unfixed = {link: len(flows) for link, flows in users.items()}
    rates = [infinite] * len(routes)
    heap = [(left[link] / number, link) for link, number in unfixed.items()]
    heapify(heap)
    while heap:
        share, link = heappop(heap)
        number = unfixed[link]
        if not number:
            continue
        now = left[link] / number
        if now > share * (1 + 1e-13):  # flows of this link were fixed at less since: shares only grow
            heappush(heap, (now, link))
            continue
        for flow in users[link]:
            if rates[flow] == infinite:
                rates[flow] = now
                for other in routes[flow]:
                    left[other] -= now
                    unfixed[other] -= 1
    return rates


def certify(routes: Sequence[Sequence[int]], capacity: Sequence[float], rates: Sequence[float]) -> None:
    """Check that ``rates`` are the max–min fair ones; O(links of all routes).

    Raises:
        ArithmeticError: a link carries more than it can, or a flow has no saturated link on which it is the fastest.
    """
    load: dict[int, float] = {}
    fastest: dict[int, float] = {}
    for route, rate in zip(routes, rates, strict=True):
        for link in route:
            if link not in load:
                load[link] = fastest[link] = rate
                continue
            load[link] += rate
            if rate > fastest[link]:
                fastest[link] = rate
    enough: dict[int, float] = {}  # to be the fastest there, if the link is saturated
    for link, carried in load.items():
        if carried > capacity[link] * (1 + TOLERANCE):
            raise ArithmeticError(f"link {link} carries {carried} of {capacity[link]}")
        saturated = carried >= capacity[link] * (1 - TOLERANCE)
        enough[link] = fastest[link] * (1 - TOLERANCE) if saturated else float("inf")
    for flow, (route, rate) in enumerate(zip(routes, rates, strict=True)):
        for link in route:
            if rate >= enough[link]:
                break
        else:
            if route:
                raise ArithmeticError(f"flow {flow} at {rate} has no saturated link on which no other flow is faster")
