"""{{stub.file}}"""

from __future__ import annotations

from collections.abc import Iterator

from collectives import Recv, Reduce, Send, place
from lessons.finished import finished

# {{stub.finished}}
reduce_scatter = finished("reduce_scatter")
all_reduce = finished("all_reduce")
all_gather = finished("all_gather")


def tree_broadcast(rank: int, size: int) -> Iterator[Send | Recv]:
    """{{stub.tree_broadcast}}"""
    # TODO: {{stub.tree_broadcast_todo}}
    raise NotImplementedError


def hierarchical(rank: int, size: int, local: int) -> Iterator[tuple[Send | Recv | Reduce, ...]]:
    """{{stub.hierarchical}}"""
    nodes, (node, me) = size // local, divmod(rank, local)
    mates = range(node * local, (node + 1) * local)
    # {{stub.blocks}}
    blocks = [range(block * nodes, (block + 1) * nodes) for block in range(local)]
    yield from place(reduce_scatter(me, local), mates, blocks)
    # TODO: {{stub.hierarchical_todo}}
    raise NotImplementedError


def ring_order(hosts: list[int]) -> list[int]:
    """{{stub.ring_order}}"""
    # TODO: {{stub.ring_order_todo}}
    raise NotImplementedError


# {{course.extra}}


def doubling(rank: int, size: int) -> Iterator[Send | Recv | Reduce | tuple[Send, Reduce]]:
    """{{stub.doubling}}"""
    # TODO: {{stub.doubling_todo}}
    raise NotImplementedError
