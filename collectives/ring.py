"""Ring: every rank talks to its two neighbours only, and sends the least that any algorithm can.

All-reduce of 4 chunks on 4 ranks; `+c` is a chunk added to, `=c` a finished chunk received::

    step            0    1    2  |  3    4    5
    rank 0  send    3    2    1  |  0    3    2        chunk c starts at rank c+1, walks round the ring,
            get    +2   +1   +0  | =3   =2   =1        collects one contribution a step, and is complete
    rank 1  send    0    3    2  |  1    0    3        at rank c: reduce-scatter. Then it walks round
            get    +3   +2   +1  | =0   =3   =2        once more as it is: all-gather.
    rank 2  send    1    0    3  |  2    1    0
            get    +0   +3   +2  | =1   =0   =3
    rank 3  send    2    1    0  |  3    2    1
            get    +1   +0   +3  | =2   =1   =0

Chunk indices are modulo size. Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
workstations", 2009.
"""

from __future__ import annotations

from collections.abc import Iterator

from .registry import register
from .schedule import Recv, Reduce, Send, Step


@register("reduce_scatter", name="ring", symmetric=True)
def reduce_scatter(rank: int, size: int) -> Iterator[Step]:
    """Rank r ends with the sum of chunk r.

    Cost: (n-1)*alpha + (n-1)/n*S*beta + (n-1)/n*S*gamma
    """
    right, left = (rank + 1) % size, (rank - 1) % size
    for step in range(size - 1):
        yield Send((rank - step - 1) % size, to=right), Reduce((rank - step - 2) % size, source=left)


@register("all_gather", name="ring", symmetric=True)
def all_gather(rank: int, size: int) -> Iterator[Step]:
    """Rank r starts with chunk r; everybody ends with all.

    Cost: (n-1)*alpha + (n-1)/n*S*beta
    """
    right, left = (rank + 1) % size, (rank - 1) % size
    for step in range(size - 1):
        yield Send((rank - step) % size, to=right), Recv((rank - step - 1) % size, source=left)


@register("all_reduce", name="ring", symmetric=True)
def all_reduce(rank: int, size: int) -> Iterator[Step]:
    """Reduce-scatter, then all-gather: 2(n−1)/n of the buffer sent by each rank, which is the minimum.

    Cost: 2*(n-1)*alpha + 2*(n-1)/n*S*beta + (n-1)/n*S*gamma
    """
    yield from reduce_scatter(rank, size)
    yield from all_gather(rank, size)
