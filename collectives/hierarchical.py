"""Hierarchical: rings inside the nodes, where links are fast, and between them with as little as possible.

All-reduce on 2 nodes of 4 ranks, 8 chunks in 4 blocks of 2; what rank 5 does, who is number 1 of node 1::

    node 0     0    1    2    3          inside    ring reduce-scatter of 4 blocks with 4 5 6 7: rank 5 holds block 1
    node 1     4    5    6    7                    (chunks 2 3), summed over its node
               │    │    │    │          between   ring all-reduce of chunks 2 3 with rank 1, along its rail
              the rails: same number     inside    ring all-gather of 4 blocks with 4 5 6 7

Only 1/local of the buffer leaves a rank on the rail, and all rails run at the same time: between nodes, each sends
2(nodes−1)/n of the buffer. With one link speed for all, bytes are the same as in one ring and only latency is saved.

Source: Cho et al., "BlueConnect: Decomposing all-reduce for deep learning on heterogeneous network hierarchy", 2019.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isqrt

from . import ring
from .combinators import place
from .registry import register
from .schedule import Step


def _row(size: int, local: int = 0) -> int:
    """Ranks a node; 0 is the largest divisor of ``size`` up to its square root."""
    return local or max(d for d in range(1, isqrt(size) + 1) if size % d == 0)


def _shape(rank: int, size: int, local: int) -> tuple[int, int, int, int, range, range]:
    """Ranks a node, nodes, the rank's number in its node, its node, the ranks of its node, the ranks of its rail."""
    local = _row(size, local)
    if local < 1 or size % local:
        divisors = ", ".join(str(d) for d in range(1, size + 1) if size % d == 0)
        raise ValueError(f"local={local} ranks a node do not divide size={size} ranks: use one of {divisors}")
    node, me = divmod(rank, local)
    return local, size // local, me, node, range(node * local, (node + 1) * local), range(me, size, local)


@register("all_reduce", name="hierarchical", symmetric=_row)
def all_reduce(rank: int, size: int, local: int = 0) -> Iterator[Step]:
    """``local`` ranks a node; 0 is the largest divisor of ``size`` up to its square root.

    Cost: 2*(local+nodes-2)*alpha + 2*(n-1)/n*S*beta + (n-1)/n*S*gamma
    """
    local, nodes, me, node, mates, rail = _shape(rank, size, local)
    blocks = [range(block * nodes, (block + 1) * nodes) for block in range(local)]
    yield from place(ring.reduce_scatter(me, local), mates, blocks)
    yield from place(ring.all_reduce(node, nodes), rail, blocks[me])
    yield from place(ring.all_gather(me, local), mates, blocks)


@register("reduce_scatter", name="hierarchical", symmetric=_row)
def reduce_scatter(rank: int, size: int, local: int = 0) -> Iterator[Step]:
    """First inside the node, a block being all that one rail needs; then along the rail.

    Cost: (local+nodes-2)*alpha + (n-1)/n*S*beta + (n-1)/n*S*gamma
    """
    local, nodes, me, node, mates, rail = _shape(rank, size, local)
    rails = [range(i, size, local) for i in range(local)]
    yield from place(ring.reduce_scatter(me, local), mates, rails)
    yield from place(ring.reduce_scatter(node, nodes), rail, rail)


@register("all_gather", name="hierarchical", symmetric=_row)
def all_gather(rank: int, size: int, local: int = 0) -> Iterator[Step]:
    """First along the rail, while there is little to send; then inside the node, all that came by one rail at once.

    Cost: (local+nodes-2)*alpha + (n-1)/n*S*beta
    """
    local, nodes, me, node, mates, rail = _shape(rank, size, local)
    rails = [range(i, size, local) for i in range(local)]
    yield from place(ring.all_gather(node, nodes), rail, rail)
    yield from place(ring.all_gather(me, local), mates, rails)
