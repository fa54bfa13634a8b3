"""ZBV, V-Half and V-Min: two chunks a rank, placed in a V, and backwards cut in two.

A microbatch goes down the ranks through chunk 0 and up again through chunk 1, so its last stage is on rank 0, where it
began: rank 0's chunk 0 is held for long and its chunk 1 for a moment, and the last rank's the other way round, so that
all ranks hold the same. In the drawings chunk 1 is marked ':'.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from .hands import Hands
from .schedule import Action, BackwardInput, BackwardWeight, Forward, PipelineSchedule, vee


def zbv(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Action]:
    """No bubble (if F = I = W), with the memory of 1F1B.

    ::

        p=3, m=5
        rank 0  F0 F1 F2 F3 F4 F0:I0:W0:F1:I1:W1:F2:I2:W2:I0 W0 F3:I3:W3:I1 W1 F4:I4:W4:I2 W2 I3 W3 I4 W4
        rank 1  .. F0 F1 F2 F0:F3 F1:I0:W0:F2:I1:W1:F4 I0 W0 F3:I2:W2:I1 W1 F4:I3:W3:I2 I4:I3 W2 I4 W4:W3 W4
        rank 2  .. .. F0 F0:F1 F1:F2 F2:I0:W0:F3 I0 W0 F3:I1:W1:F4 I1 W1 F4:I2:W2:I2 I3:I3 I4:I4 W2 W3:W3 W4:W4

    A rank holds at most p microbatches. With fewer than 2p-1 microbatches those that are missing are left out.

    Qi et al., Zero Bubble Pipeline Parallelism, arXiv:2401.10241.
    """
    do, count = Hands(), max(microbatches, 2 * ranks - 1)

    def enough() -> Iterator[Action]:
        for _ in range(2 * (ranks - rank) - 1):
            yield do.forward(0)
        for _ in range(rank):
            yield do.forward(1)
            yield do.forward(0)
        for _ in range(ranks - rank):
            yield from (do.forward(1), do.input(1), do.weight())
        for _ in range(count - ranks):
            if do.forwards[0] < count:
                yield do.forward(0)
            yield from (do.input(0), do.weight())
            yield from (do.forward(1), do.input(1), do.weight())
        for _ in range(rank):
            yield from (do.input(0), do.input(1))
        for _ in range(ranks - rank):
            yield from (do.input(0), do.weight())
        while do.owed:
            yield do.weight()

    return (action for action in enough() if action.microbatch < microbatches)


def v_half(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Action]:
    """Half the memory of 1F1B and about half its bubble: down two slots a rank, up one.

    ::

        p=3, m=2
        rank 0  F0 F1 .. .. .. F0:I0:W0:.. .. F1:I1:W1:I0 W0 .. .. I1 W1
        rank 1  .. F0 .. .. F0:F1 .. I0:W0:F1:.. I0 I1:W1:W0 .. I1 W1
        rank 2  .. .. F0 F0:.. .. F1 F1:I0:W0:I0 W0 .. I1:W1:I1 W1

    A microbatch is in flight for about 6p slots, of 6 slots that it costs a rank. Measured with F = I = W: bubble
    about 5/3·(p-1) slots of a whole stage's F, where 1F1B has 3(p-1); peak at most p/2 + 1.5 microbatches.

    Qi et al., Pipeline Parallelism with Controllable Memory, arXiv:2405.15362.
    """
    return _repeat(_building_block(ranks, (2, 1, 2, 1))[rank], microbatches)


def v_min(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Action]:
    """A third of the memory of 1F1B and two thirds of its bubble: one slot a rank, all the way.

    ::

        p=3, m=2
        rank 0  F0 .. .. .. .. F0:F1 I0:W0:.. .. F1:.. I0 I1:W1:W0 .. .. I1 W1
        rank 1  .. F0 .. .. F0:.. .. F1 I0:.. F1:W0:I0 W0 .. I1:W1:.. I1 W1
        rank 2  .. .. F0 F0:.. .. .. .. F1 F1:I0:I0 W0:W0 .. .. I1:I1 W1:W1

    A microbatch is in flight for about 4p slots, of 6 slots that it costs a rank. Measured with F = I = W: bubble
    about 2(p-1) slots of a whole stage's F, where 1F1B has 3(p-1); peak at most p/3 + 4/3 microbatches.

    Qi et al., Pipeline Parallelism with Controllable Memory, arXiv:2405.15362.
    """
    return _repeat(_building_block(ranks, (1, 1, 1, 1))[rank], microbatches)


Kind: TypeAlias = type[Forward] | type[BackwardInput] | type[BackwardWeight]
Block: TypeAlias = list[tuple[int, Kind, int]]
PERIOD = 6  # slots that a microbatch costs a rank: F, I and W of two chunks


def _building_block(ranks: int, strides: Sequence[int]) -> list[Block]:
    """When one microbatch does what, a list of (slot, kind, chunk) for each rank; the next does the same 6 slots later.

    Forward down, forward up, I down, I up: each takes so many slots a rank as ``strides`` says, and begins as soon as
    none of its slots, modulo 6, is taken on any rank. The Ws take the slots that are left.
    """
    blocks: list[Block] = [[] for _ in range(ranks)]
    taken: list[set[int]] = [set() for _ in range(ranks)]

    def put(rank: int, slot: int, kind: Kind, chunk: int) -> None:
        blocks[rank].append((slot, kind, chunk))
        taken[rank].add(slot % PERIOD)

    slot, down, up = 0, range(ranks), range(ranks - 1, -1, -1)
    legs: tuple[tuple[Kind, int, range], ...] = (
        (Forward, 0, down),
        (Forward, 1, up),
        (BackwardInput, 1, down),
        (BackwardInput, 0, up),
    )
    for (kind, chunk, path), stride in zip(legs, strides, strict=True):
        while any((slot + stride * place) % PERIOD in taken[rank] for place, rank in enumerate(path)):
            slot += 1
        for place, rank in enumerate(path):
            put(rank, slot + stride * place, kind, chunk)
        slot += stride * (ranks - 1) + 1
    for rank, block in enumerate(blocks):
        for slot, _, chunk in [entry for entry in block if entry[1] is BackwardInput]:
            free = next(s for s in range(slot + 1, slot + 1 + PERIOD) if s % PERIOD not in taken[rank])
            put(rank, free, BackwardWeight, chunk)
    return blocks


def _repeat(block: Block, microbatches: int) -> Iterator[Action]:
    """The block once for every microbatch, all in the order of their slots."""
    slots = [(slot + PERIOD * i, i, kind, chunk) for i in range(microbatches) for slot, kind, chunk in block]
    slots.sort(key=lambda entry: entry[0])
    return (kind(i, chunk) for _, i, kind, chunk in slots)


SCHEDULES = (
    PipelineSchedule("zbv", zbv, vee, chunks=2),
    PipelineSchedule("v-half", v_half, vee, chunks=2),
    PipelineSchedule("v-min", v_min, vee, chunks=2),
)
