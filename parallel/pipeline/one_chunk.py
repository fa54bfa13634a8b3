"""naive, GPipe and 1F1B: one chunk a rank. All are one shape: forwards first, then forward and backward by turns.

They differ in one number, how many forwards a rank runs ahead: none (naive), all (GPipe), or as many as it takes for
the first gradient to come back (1F1B). So they wait equally long, save naive; what differs is what they hold.
In the drawings a backward takes two slots.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .schedule import Action, Backward, Forward, PipelineSchedule


def ahead(count: int, forwards: Sequence[Action], backwards: Sequence[Action]) -> Iterator[Action]:
    """``count`` forwards, then forward and backward by turns, then the backwards that are left."""
    count = min(count, len(forwards))
    yield from forwards[:count]
    for forward, backward in zip(forwards[count:], backwards, strict=False):
        yield forward
        yield backward
    yield from backwards[len(forwards) - count :]


def naive(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Action]:
    """A microbatch goes all the way down and back before the next one starts: one rank works at a time.

    ::

        p=2, m=2
        rank 0  F0 .. .. .. B0 B0 F1 .. .. .. B1 B1
        rank 1  .. F0 B0 B0 .. .. .. F1 B1 B1 .. ..

    m microbatches take m·p·(F+B). The least memory of all: one microbatch.
    """
    return ahead(0, *_in_order(microbatches))


def gpipe(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Action]:
    """All forwards, then all backwards: fill, drain, and the same again backwards.

    ::

        p=3, m=4
        rank 0  F0 F1 F2 F3 .. .. .. .. .. .. B0 B0 B1 B1 B2 B2 B3 B3
        rank 1  .. F0 F1 F2 F3 .. .. .. B0 B0 B1 B1 B2 B2 B3 B3
        rank 2  .. .. F0 F1 F2 F3 B0 B0 B1 B1 B2 B2 B3 B3

    Bubble (p-1)(F+B); a rank holds all m microbatches. Backwards run in the order of the forwards, so that gradients
    are summed in the order in which one process would.

    Huang et al., GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism, arXiv:1811.06965.
    """
    return ahead(microbatches, *_in_order(microbatches))


def one_forward_one_backward(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Action]:
    """A backward as soon as its gradient is there, one forward for each: no more than p microbatches are ever held.

    ::

        p=3, m=4
        rank 0  F0 F1 F2 .. .. .. .. B0 B0 F3 B1 B1 .. B2 B2 .. B3 B3
        rank 1  .. F0 F1 .. .. B0 B0 F2 B1 B1 F3 B2 B2 .. B3 B3
        rank 2  .. .. F0 B0 B0 F1 B1 B1 F2 B2 B2 F3 B3 B3

    Bubble (p-1)(F+B), as GPipe; rank r holds min(m, p-r) microbatches. Also called PipeDream-Flush.

    Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training, arXiv:2006.09503.
    """
    return ahead(ranks - rank - 1, *_in_order(microbatches))


def _in_order(microbatches: int) -> tuple[list[Action], list[Action]]:
    return [Forward(i) for i in range(microbatches)], [Backward(i) for i in range(microbatches)]


SCHEDULES = (
    PipelineSchedule("naive", naive),
    PipelineSchedule("gpipe", gpipe),
    PipelineSchedule("1f1b", one_forward_one_backward),
)
