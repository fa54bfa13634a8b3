"""What each collective promises: which data every rank starts with, and which it must end with.

A rank's data live in *places*: ``(space, index)`` with space ``work`` (the working buffer, which a bare int names),
``input``, ``output`` or ``scratch``. A place holds ``(tag, ranks)``: which data it is, and the bit mask of the ranks
whose contributions are combined in it. Programs are written for root 0; the k chunks of a buffer with a block a rank
belong k/n to each rank, in rank order::

    collective       working buffer        starts with                ends with
    all_reduce       k chunks              rank r: every chunk, {r}   every chunk, {0 … n−1}
    reduce           k chunks              rank r: every chunk, {r}   rank 0: every chunk, {0 … n−1}
    broadcast        k chunks              rank 0: every chunk        every chunk
    all_gather       n blocks = output     rank r: block r = input    every block
    gather           n blocks = output     rank r: block r = input    rank 0: every block
    reduce_scatter   n blocks = input      every block, {r}           rank r: block r = output, {0 … n−1}
    scatter          n blocks = input      rank 0: every block        rank r: block r = output
    all_to_all       none                  rank r: input block j      rank r: output block i = rank i's input block r
    barrier          1 chunk of 0 bytes    rank r is known to r       every rank is known
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from .errors import ScheduleError
from .schedule import Chunk, ChunkLike
from .sentence import Sentence

Place: TypeAlias = tuple[str, int]
Content: TypeAlias = tuple[Any, int]

# The buffer that is one block of the working buffer: the rank's own.
BLOCK_ONLY = {"all_gather": "input", "gather": "input", "reduce_scatter": "output", "scatter": "output"}


@dataclass(frozen=True, slots=True)
class Contract:
    """One collective.

    rooted: only rank 0 (the root) gives or gets the whole.
    reduces: contributions are combined; blocks: the buffer is one block a rank.
    factor: busbw / algbw for n ranks, as nccl-tests defines it.
    """

    name: str
    rooted: bool
    reduces: bool
    blocks: bool

    def factor(self, size: int) -> float:
        if self.name == "all_reduce":
            return 2 * (size - 1) / size
        return (size - 1) / size if self.blocks else 1.0

    def place(self, chunk: ChunkLike, rank: int, size: int, chunks: int) -> Place:
        """Where a chunk, as a program writes it, lies; O(1).

        Raises:
            ScheduleError: there is no such chunk (kind ``missing``).
        """
        first, count = 0, chunks
        if not isinstance(chunk, Chunk):
            space, index = "work", chunk
        elif chunk.buffer == "scratch":
            space, index, count = "scratch", chunk.index, chunk.index + 1
        else:
            space, index = (chunk.buffer if self.name == "all_to_all" else "work"), chunk.index
            if BLOCK_ONLY.get(self.name) == chunk.buffer:
                first, count = rank * (chunks // size), chunks // size
        if self.name == "all_to_all" and space == "work":
            raise ScheduleError(
                Sentence(
                    "contract.no_working_buffer",
                    "rank {rank} names chunk {chunk}, but all_to_all has no working buffer: "
                    'write Buffer("input")[i] or Buffer("output")[i]',
                    rank=rank,
                    chunk=str(chunk),
                ),
                "missing",
            )
        try:
            index = operator.index(index)
        except TypeError:
            raise ScheduleError(
                Sentence(
                    "contract.no_whole_chunk",
                    "rank {rank} names chunk {chunk}: a chunk is named by one whole number; "
                    "if it comes from a division, use //",
                    rank=rank,
                    chunk=str(chunk),
                ),
                "missing",
            ) from None
        if count == 1 and index != 0:
            raise ScheduleError(
                Sentence(
                    "contract.one_chunk",
                    "rank {rank} names chunk {chunk}, which does not exist: the buffer is one chunk here, number 0",
                    rank=rank,
                    chunk=str(chunk),
                ),
                "missing",
            )
        if not 0 <= index < count:
            raise ScheduleError(
                Sentence(
                    "contract.no_such_chunk",
                    "rank {rank} names chunk {chunk}, which does not exist: there are {count}, 0 to {last}; "
                    "take the index modulo their number",
                    rank=rank,
                    chunk=str(chunk),
                    count=count,
                    last=count - 1,
                ),
                "missing",
            )
        return space, first + index

    def starts(self, rank: int, size: int, chunks: int) -> Iterator[tuple[Place, Content]]:
        """What ``rank`` holds before the first step."""
        mine = chunks // size
        for c in range(chunks):
            if self.name == "all_to_all":
                yield ("input", c), ((rank, c // mine, c % mine), 1 << rank)
            elif self.reduces or (rank == 0 if self.rooted and self.name != "gather" else c // mine == rank):
                yield ("work", c), (c, 1 << rank)

    def ends(self, rank: int, size: int, chunks: int) -> Iterator[tuple[Place, Content]]:
        """What ``rank`` must hold after the last step."""
        mine, everyone = chunks // size, (1 << size) - 1
        for c in range(chunks):
            if self.name == "all_to_all":
                yield ("output", c), ((c // mine, rank, c % mine), 1 << c // mine)
                continue
            if self.name in ("reduce", "gather") and rank != 0:
                continue
            if self.name in ("reduce_scatter", "scatter") and c // mine != rank:
                continue
            owner = everyone if self.reduces else 1 << (0 if self.name in ("broadcast", "scatter") else c // mine)
            yield ("work", c), (c, owner)


CONTRACTS = {
    contract.name: contract
    for contract in (
        Contract("all_reduce", rooted=False, reduces=True, blocks=False),
        Contract("reduce", rooted=True, reduces=True, blocks=False),
        Contract("broadcast", rooted=True, reduces=False, blocks=False),
        Contract("all_gather", rooted=False, reduces=False, blocks=True),
        Contract("reduce_scatter", rooted=False, reduces=True, blocks=True),
        Contract("gather", rooted=True, reduces=False, blocks=True),
        Contract("scatter", rooted=True, reduces=False, blocks=True),
        Contract("all_to_all", rooted=False, reduces=False, blocks=True),
        Contract("barrier", rooted=False, reduces=True, blocks=False),
    )
}


def contract_of(collective: str) -> Contract:
    """The contract with that name; ``ValueError`` lists the known ones."""
    try:
        return CONTRACTS[collective]
    except KeyError:
        raise ValueError(
            Sentence(
                "contract.unknown_collective",
                "collective {collective} is unknown: use one of {known}",
                collective=repr(collective),
                known=tuple(CONTRACTS),
            )
        ) from None
