"""Bruck: distances 1, 2, 4, … around the ring, in ceil(log2 n) steps for every number of ranks.

All-gather on 5 ranks: each rank gets the blocks that follow its own, from the rank at that distance::

    distance         1          2           4          rank 0 knows
    rank 0  get    1 ◀1      2,3 ◀2       4 ◀4         0 │ 1 │ 2 3 │ 4
    rank 1  get    2 ◀2      3,4 ◀3       0 ◀0         The last step asks only for what is still missing, so that
    rank 2  get    3 ◀3      4,0 ◀4       1 ◀1         n−1 blocks arrive and no more.

All-to-all on 8 ranks: a block for the rank at distance j travels the binary digits of j, and shares each of its trips
with all the others that have that digit::

    j       1     2     3     4     5     6     7      3 messages instead of 7, but every block is sent as often as
    +1      ●           ●           ●           ●      its j has ones: 4 blocks a message, log2(n)/2 times the buffer
    +2            ●     ●                 ●     ●      in all. Worth it where latency is what a block costs.
    +4                        ●     ●     ●     ●

Between trips a block waits in scratch: at [j] or [n+j] in turn, as no step may receive into what it sends.

Source: Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient algorithms for all-to-all communications in multiport
message-passing systems", 1997.
"""

from __future__ import annotations

from collections.abc import Iterator

from .registry import register
from .schedule import Buffer, Operation, Recv, Send, Step


@register("all_gather", name="bruck", symmetric=True)
def all_gather(rank: int, size: int) -> Iterator[Step]:
    """Every step doubles the run of blocks that a rank knows.

    Cost: log2n*alpha + (n-1)/n*S*beta
    """
    for bit in range((size - 1).bit_length()):
        known = 1 << bit
        before, after = (rank - known) % size, (rank + known) % size
        wanted = range(min(known, size - known))
        yield (
            *(Send((rank + i) % size, to=before) for i in wanted),
            *(Recv((after + i) % size, source=after) for i in wanted),
        )


@register("all_to_all", name="bruck", symmetric=True)
def all_to_all(rank: int, size: int) -> Iterator[Step]:
    """The first trip of a block starts from the input, the last one ends in the output.

    Cost: log2n*(alpha + S/2*beta)
    Exact for: n a power of two; others pay less than that, as fewer than half of the blocks take the later trips
    """
    yield Send(Buffer("input")[rank], to=rank), Recv(Buffer("output")[rank], source=rank)
    for bit in range((size - 1).bit_length()):
        hop = 1 << bit
        step: list[Operation] = []
        for j in [j for j in range(size) if j & hop]:
            trips = (j % hop).bit_count()
            here = Buffer("scratch")[trips % 2 * size + j] if trips else Buffer("input")[(rank + j) % size]
            last = j < 2 * hop
            there = Buffer("output")[(rank - j) % size] if last else Buffer("scratch")[(trips + 1) % 2 * size + j]
            step += [Send(here, to=(rank + hop) % size), Recv(there, source=(rank - hop) % size)]
        yield tuple(step)
