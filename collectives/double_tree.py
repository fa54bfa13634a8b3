"""Double tree: two trees at once, each for half of the buffer; who passes data on in one only receives in the other.

In a binary tree half of the ranks are leaves, and leaves have little to send: half of the ports lie idle. The second
tree is the first one with ranks 1, 2, … shifted by one, so that the leaves of each do the work of the other; 8 ranks::

    first half of the buffer     second half of it
              0                         0              Below rank 0 the ranks stand in order: what hangs on the left
              4                         3              of a rank comes before it, what hangs on the right after, so a
         2         6               1         5         partial sum is always one of neighbours. Even ranks pass data
       1   3     5   7           7   2     4   6       on in the first tree, odd ones in the second.

All-reduce of 3 chunks in the first tree; `+c` added and sent up one step later, `=c` received and sent down likewise::

    time        0    1    2    3    4    5    6    7
    rank 0               +0   +1   +2                  log2(8) = 3 links up, 3 down, and the chunks behind each other:
    rank 4          +0   +1   +2                       5+k steps. In a step, a rank that passes data on sends one chunk
                              =0   =1   =2             up and two down, and one up as a leaf of the other tree: 4 of
    rank 2     +0   +1   +2                            the 2k chunks, so 2S in all.
                                   =0   =1   =2
    rank 1                              =0   =1   =2

So it has the latency of a tree and, with many chunks, the bytes of a ring. A broadcast is the second part alone, a
reduce the first. The trees are two channels, and do not wait for each other.

Source: Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", 2009.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from .chain import relay
from .combinators import place
from .recursive_doubling import power_below
from .registry import register
from .schedule import Program, Recv, Reduce, Step


def _top(ranks: range) -> int:
    """The top of the in-order tree of these ranks: as many as possible to its left, in a full tree."""
    return ranks.start - 1 + power_below(len(ranks))


def _path_and_children(rank: int, size: int) -> tuple[list[int], list[int]]:
    """In the first tree: the ranks from 0 down to ``rank``, and those just below it. O(log size)."""
    path, below = [0], [range(1, size)]
    while path[-1] != rank:
        ranks = next(ranks for ranks in below if rank in ranks)
        path.append(_top(ranks))
        below = [range(ranks.start, path[-1]), range(path[-1] + 1, ranks.stop)]
    return path, [_top(ranks) for ranks in below if ranks]


def _depth(size: int) -> int:
    return (size - 1).bit_length()


def _up(rank: int, size: int, chunks: int) -> Iterator[Step]:
    path, children = _path_and_children(rank, size)
    yield from relay(chunks, children, Reduce, path[-2:-1], start=_depth(size) - len(path) + 1)


def _down(rank: int, size: int, chunks: int, start: int = 0) -> Iterator[Step]:
    path, children = _path_and_children(rank, size)
    yield from relay(chunks, path[-2:-1], Recv, children, start=start + len(path) - 1)


def both_trees(program: Program) -> list[Program]:
    """The program of the first tree, and the same one on the second."""

    def second(rank: int, size: int, chunks: int) -> Iterator[Step]:
        order = [0, size - 1, *range(1, size - 1)][:size]
        return place(program(order.index(rank), size, chunks), order)

    return [program, second]


@register("broadcast", name="double_tree", chunks=8)
@both_trees
def broadcast(rank: int, size: int, chunks: int) -> Iterator[Step]:
    """Down both trees from rank 0; ``chunks`` are those of one tree.

    Cost: (log2n-1+k)*(alpha + S/k*beta)
    Exact for: no n, as two trees meet on a port; with alpha > 0 from a quarter less to a third more
    """
    yield from _down(rank, size, chunks)


@register("reduce", name="double_tree", chunks=8)
@both_trees
def reduce(rank: int, size: int, chunks: int) -> Iterator[Step]:
    """Up both trees to rank 0; ``chunks`` are those of one tree.

    Cost: (log2n-1+k)*(alpha + S/k*beta + S/k*gamma)
    Exact for: no n, as two trees meet on a port; with alpha > 0 from half of it (adding hides) to a third more
    """
    yield from _up(rank, size, chunks)


@register("all_reduce", name="double_tree", chunks=8)
@both_trees
def all_reduce(rank: int, size: int, chunks: int) -> Iterator[Step]:
    """Up, and down again as soon as the first chunk has reached rank 0; ``chunks`` are those of one tree.

    Cost: (2*log2n-1+k)*alpha + (log2n-1+k)*(2*S/k*beta + S/k*gamma)
    Exact for: no n, as two trees meet on a port; with alpha > 0 at most a quarter more
    """
    for up, down in zip_longest(_up(rank, size, chunks), _down(rank, size, chunks, _depth(size)), fillvalue=()):
        yield *up, *down
