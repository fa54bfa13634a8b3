"""Orders of ranks for a ring that crosses between hosts as rarely as possible, and what learners take for one."""

from __future__ import annotations

from collections.abc import Sequence

from .reference import Example, Reference


def crossings(order: Sequence[int], hosts: Sequence[int]) -> int:
    """How often a ring in that order of ranks goes from one host to another."""
    return sum(hosts[a] != hosts[b] for a, b in zip(order, [*order[1:], *order[:1]], strict=True))


def _same_order(value: object, other: object, example: Example) -> bool:
    """Two orders of all ranks that cross equally often."""
    (hosts,) = example
    try:
        orders = [list(value), list(other)]  # type: ignore[call-overload]
        if any(sorted(order) != list(range(len(hosts))) for order in orders):
            return False
        return crossings(orders[0], hosts) == crossings(orders[1], hosts)
    except (TypeError, ValueError, RuntimeError):
        return False


def _same_items(value: object, other: object, example: Example) -> bool:
    try:
        return bool(list(value) == list(other))  # type: ignore[call-overload]
    except (TypeError, ValueError, RuntimeError):
        return False


def _one_each_in_turn(hosts: Sequence[int]) -> list[int]:
    seen: dict[int, int] = {}
    turns = []
    for rank, host in enumerate(hosts):
        turns.append((seen.setdefault(host, 0), rank))
        seen[host] += 1
    return [rank for _, rank in sorted(turns)]


def _places(hosts: Sequence[int]) -> list[int]:
    order = _ring_order(hosts)
    return [order.index(rank) for rank in range(len(hosts))]


def _ring_order(hosts: Sequence[int]) -> list[int]:
    """Any order in which each host's ranks stand together crosses once out of each host, which is the least."""
    return sorted(range(len(hosts)), key=hosts.__getitem__)


ORDER = Reference(
    examples=(
        ([0, 1, 2, 0, 1, 2, 0, 1, 2],),
        ([0, 0, 1, 2, 2, 1, 0, 1, 2],),
        ([7, 3, 7, 7, 3, 5, 3],),
        ([1, 0, 1, 0, 1, 0, 1, 0],),
        ([0, 0, 0],),
        ([4],),
    ),
    answer=_ring_order,
    kind="order",
    same=_same_order,
    exactly=_same_items,
    mistakes={
        "formula.ring_order.unchanged": lambda hosts: list(range(len(hosts))),
        "formula.ring_order.backwards": lambda hosts: list(range(len(hosts)))[::-1],
        "formula.ring_order.in_turn": _one_each_in_turn,
        "formula.ring_order.hosts": lambda hosts: sorted(hosts),
        "formula.ring_order.each_host": lambda hosts: list(dict.fromkeys(hosts)),
        "formula.ring_order.counts": lambda hosts: [hosts.count(host) for host in sorted(set(hosts))],
        "formula.ring_order.first": lambda hosts: [hosts.index(host) for host in sorted(hosts)],
        "formula.ring_order.places": _places,
    },
)
