"""Schedules from schedules: ``place`` renames ranks and chunks, ``split`` and ``rings`` make channels.

``over_nodes`` finds the orders of ``rings`` where several nodes have several NICs.

Programs are written for root 0, natural rank order and one level. ``place`` alone gives any root, any ring order,
sub-groups, folds and hierarchies; ``yield from`` is sequence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from .contract import BLOCK_ONLY, CONTRACTS
from .schedule import Buffer, Chunk, ChunkLike, Operation, Program, Recv, Reduce, Schedule, Send, Step, Symmetric
from .sentence import Sentence

ChunkMap: TypeAlias = Sequence[ChunkLike | Sequence[ChunkLike]]


def place(
    steps: Iterable[Step | Operation],
    ranks: Sequence[int],
    chunks: ChunkMap | None = None,
    keep: Collection[str] = ("scratch",),
) -> Iterator[Step]:
    """The same steps, by other ranks on other chunks.

    Args:
        steps: what one rank does, in its own numbering.
        ranks: ``ranks[i]`` is the real number of rank i.
        chunks: ``chunks[c]`` is the real chunk c, or a sequence of them (a block, which travels as one message);
            None keeps the numbers. ``Buffer("input")`` and ``("output")`` are renumbered alike.
        keep: buffers whose numbers stay; ``scratch`` is each rank's own.

    Raises:
        ValueError: ``ranks`` names a rank twice, or a negative one; ``steps`` name one that is not in it, or a chunk
            that is not in ``chunks``.

    O(1) an operation. Example: a broadcast from ``root`` is
    ``place(broadcast((rank - root) % size, size), [(i + root) % size for i in range(size)])``.
    """

    if len(set(ranks)) < len(ranks) or min(ranks, default=0) < 0:
        raise ValueError(
            Sentence("combinators.ranks", "ranks={ranks}: each must be another rank, from 0 on", ranks=str(list(ranks)))
        )

    def real(chunk: ChunkLike) -> Iterator[ChunkLike]:
        if chunks is None or (isinstance(chunk, Chunk) and chunk.buffer in keep):
            yield chunk
            return
        index = chunk.index if isinstance(chunk, Chunk) else chunk
        try:
            target = chunks[index]
        except IndexError:
            raise ValueError(
                Sentence(
                    "combinators.no_such_chunk",
                    "place(…): its steps name chunk {index}, but its chunks stand for 0 to {last} only",
                    index=index,
                    last=len(chunks) - 1,
                )
            ) from None
        for one in [target] if isinstance(target, (int, Chunk)) else target:
            yield Buffer(chunk.buffer)[one] if isinstance(chunk, Chunk) and isinstance(one, int) else one

    def renumbered(rank: int) -> int:
        try:
            return ranks[rank]
        except IndexError:
            raise ValueError(
                Sentence(
                    "combinators.no_such_rank",
                    "place(…): its steps name rank {rank}, but its ranks stand for 0 to {last} only",
                    rank=rank,
                    last=len(ranks) - 1,
                )
            ) from None

    for step in steps:
        operations = (step,) if isinstance(step, (Send, Recv, Reduce)) else step
        yield tuple(
            Send(chunk, renumbered(operation.to))
            if isinstance(operation, Send)
            else type(operation)(chunk, renumbered(operation.source))
            for operation in operations
            for chunk in real(operation.chunk)
        )


def rooted(schedule: Schedule, root: int, size: int) -> Schedule:
    """``schedule`` with ``root`` in the place of rank 0: everybody moves up by ``root``, around the ring."""
    if root == 0:
        return schedule
    return ordered(schedule, [(rank + root) % size for rank in range(size)], schedule.symmetric)


def ordered(schedule: Schedule, order: Sequence[int], symmetric: Symmetric = False) -> Schedule:
    """``schedule`` with rank ``order[i]`` in the place of rank i; every rank keeps its own block.

    Args:
        order: a permutation of the ranks.
        symmetric: what holds of the new schedule; that of the old one holds if the order is a rotation.
    """
    count = schedule.chunk_count(len(order))
    mine = count // len(order)
    chunks = None
    if CONTRACTS[schedule.collective].blocks:
        chunks = [order[c // mine] * mine + c % mine for c in range(count)]

    keep = {"scratch", BLOCK_ONLY.get(schedule.collective, "scratch")}  # the rank's own block has its own numbers
    position = {rank: i for i, rank in enumerate(order)}

    def moved(channel: int) -> Program:
        return lambda rank, size: place(schedule.steps(position[rank], size, channel), order, chunks, keep)

    programs = {program: moved(schedule.programs.index(program)) for program in schedule.programs}  # same stays same
    return Schedule(schedule.collective, [programs[p] for p in schedule.programs], count, f"{schedule}", symmetric)


def split(schedule: Schedule, k: int) -> Schedule:
    """The same programs on k shares of the buffer, side by side: one share is reduced while another travels."""
    return schedule.with_options(channels=k)


def rings(orders: Sequence[Sequence[int]], collective: str = "all_reduce") -> Schedule:
    """One ring an order, each a channel on its share of the buffer: one a NIC or an NVLink.

    Args:
        orders: each a permutation of the ranks; rank ``order[i]`` sends to rank ``order[i + 1]``.
        collective: ``all_reduce``, ``all_gather`` or ``reduce_scatter``.

    Raises:
        ValueError: no orders, or orders that are not permutations of one another's ranks.
    """
    from . import ring

    programs: dict[str, Any] = {
        "all_reduce": ring.all_reduce,
        "all_gather": ring.all_gather,
        "reduce_scatter": ring.reduce_scatter,
    }
    if collective not in programs:
        raise ValueError(
            Sentence(
                "rings.collective",
                "collective={collective} has no ring: use one of {known}",
                collective=repr(collective),
                known=tuple(programs),
            )
        )
    orders = [[int(rank) for rank in order] for order in orders]
    if not orders:
        raise ValueError(Sentence("rings.no_orders", "orders is empty: give one order of the ranks a ring"))
    for order in orders:
        if sorted(order) != list(range(len(orders[0]))):
            raise ValueError(
                Sentence(
                    "rings.no_permutation",
                    "order {order} is not a permutation of ranks 0 to {last}",
                    order=str(list(order)),
                    last=len(orders[0]) - 1,
                )
            )

    def along(order: Sequence[int]) -> Program:
        def program(rank: int, size: int) -> Iterable[Step]:
            if size != len(order):
                raise ValueError(
                    Sentence(
                        "rings.other_size",
                        "order {order} is for another number of ranks ({length}) than there are ({size})",
                        order=str(list(order)),
                        length=len(order),
                        size=size,
                    )
                )
            return place(programs[collective](order.index(rank), size), order, order)

        return program

    return Schedule(collective, [along(list(order)) for order in orders], name="rings")


def over_nodes(
    inside: Sequence[Sequence[int]], nodes: int, count: int, nics: Sequence[int] = ()
) -> list[tuple[int, ...]]:
    """``count`` orders of the ranks of equal nodes, for ``rings``: each crosses between nodes by NICs of its own.

    Two of the four rings of 2 nodes with 4 ranks and 4 NICs::

        node 0     0 → 1 → 2 → 3        1 → 2 → 3 → 0       ring i enters node 0 at local rank i. Odd nodes are gone
                   ↑           ↓        ↑           ↓       through backwards, so that a ring stays on a rail: NICs of
        node 1     4 ← 5 ← 6 ← 7        5 ← 6 ← 7 ← 4       equal number. Each NIC has one ring out and one ring in.

    One ring crosses with all of its data by one NIC; k rings with 1/k each by k of them, in 1/k of the time. (With a
    single NIC there is no other rail, so all nodes are gone through forwards.)

    Args:
        inside: orders of the ranks of one node, from 0; the rings take them in turn, entering each where NICs have had
            the fewest so far.
        nodes: how many; node n has the ranks from ``n * len(inside[0])`` on.
        nics: the NIC of each rank of a node; by default each has its own.

    O(count² · ranks of a node).
    """
    local = len(inside[0])
    nic = nics or range(local)
    there_and_back = len(set(nic)) > 1
    entered, left, taken = Counter[int](), Counter[int](), Counter[int]()
    orders = []
    for ring in range(count):
        fresh = [i for i in range(len(inside)) if taken[i] <= ring // len(inside)]
        turned = [(i, (*inside[i][at:], *inside[i][:at])) for i in fresh for at in range(local)]
        number, way = min(turned, key=lambda found: entered[nic[found[1][0]]] + left[nic[found[1][-1]]])
        taken[number] += 1
        entered[nic[way[0]]] += 1
        left[nic[way[-1]]] += 1
        ways = [way[::-1] if there_and_back and node % 2 else way for node in range(nodes)]
        orders.append(tuple(node * local + rank for node, way in enumerate(ways) for rank in way))
    return orders
