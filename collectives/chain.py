"""Chain: the buffer runs down the line 0, 1, 2, … in chunks, so that every link of the line is busy at the same time.

Broadcast of 3 chunks on 4 ranks; every chunk moves one rank a time step::

    time              0     1     2     3     4
    rank 0   send     0     1     2                    k chunks and n−1 links: the last chunk leaves rank 0 at time
    rank 1   get      0     1     2                    k−1 and has n−2 links more to go, so the whole takes n−2+k.
             send           0     1     2              With one chunk that is n−1 times the buffer; with many it is
    rank 2   get            0     1     2              the buffer once, and the length of the line costs latency
             send                 0     1     2        only. Too many, and each chunk's own latency costs more than
    rank 3   get                  0     1     2        the shorter pipeline saves.

Reduce walks the same line the other way, adding instead of replacing.

Source: Watts and van de Geijn, "A pipelined broadcast for multidimensional meshes", 1995.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .registry import register
from .schedule import Recv, Reduce, Send, Step


def relay(
    chunks: int, sources: Sequence[int], get: type[Recv] | type[Reduce], targets: Sequence[int], start: int = 1
) -> Iterator[Step]:
    """What a rank on the way does: chunk c leaves at time start+c, and has come one step before that."""
    for time in range(start + chunks):
        coming, leaving = time - start + 1, time - start
        yield (
            *(get(coming, source) for source in sources if 0 <= coming < chunks),
            *(Send(leaving, to) for to in targets if leaving >= 0),
        )


def _neighbours(rank: int, size: int) -> tuple[range, range]:
    """The rank before and the one after, if there is one."""
    return range(rank)[-1:], range(size)[rank + 1 : rank + 2]


@register("broadcast", name="chain", chunks=8)
def broadcast(rank: int, size: int, chunks: int) -> Iterator[Step]:
    """A rank in the middle receives chunk c and passes chunk c−1 on in the same step.

    Cost: (n-2+k)*(alpha + S/k*beta)
    Exact for: n from 2 on
    """
    before, after = _neighbours(rank, size)
    yield from relay(chunks, before, Recv, after)


@register("reduce", name="chain", chunks=8)
def reduce(rank: int, size: int, chunks: int) -> Iterator[Step]:
    """A rank in the middle adds to chunk c and passes the partial sum of chunk c−1 on in the same step.

    Cost: (n-2+k)*(alpha + S/k*beta + S/k*gamma)
    Exact for: n from 2 on
    """
    before, after = _neighbours(rank, size)
    yield from relay(chunks, after, Reduce, before)
