"""Interleaved 1F1B and looped BFS: a rank holds several chunks, so a microbatch goes round the ranks several times.

The pipeline fills with v times smaller pieces, so the bubble is v times smaller, and messages are v times as many.
"""

from __future__ import annotations

from collections.abc import Iterator

from .one_chunk import ahead
from .schedule import Action, Backward, Forward, PipelineSchedule


def interleaved(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Action]:
    """1F1B on ``chunks`` chunks a rank: p microbatches through chunk 0, the same p through chunk 1, …, the next p.

    ::

        p=2, v=2, m=4; chunk 1 is marked ':', a backward takes two slots
        rank 0  F0 F1 F0:F1:F2 .. B0:B0:F3 B1:B1:F2:B0 B0 F3:B1 B1 .. B2:B2:.. B3:B3:B2 B2 B3 B3
        rank 1  .. F0 F1 F0:B0:B0:F1:B1:B1:F2 B0 B0 F3 B1 B1 F2:B2:B2:F3:B3:B3:B2 B2 B3 B3

    Bubble (p-1)(F+B)/v for m a multiple of p; rank 0 holds p + (p-1)/v microbatches for m ≥ 2p, fewer for fewer.

    Why 2(p-r-1) forwards ahead, and not p-r-1 as in 1F1B: seen from its neighbour p-1, rank p-2 has every forward one
    slot earlier and every gradient one slot later, and so on up the ranks. With chunks there is work for both slots
    (1F1B has none, it waits). It gives a message a slot of time to arrive in; with p-r-1 ahead it is needed in the
    moment in which it is sent. Without transfers both take as long; p=8, v=4, m=32 and F/5 a transfer: 114 F or 150.

    Where m is no multiple of p, the last round is filled up in thought, and what is not there is left out.

    Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM, arXiv:2104.04473.
    """
    rounds = range(0, microbatches, ranks)
    order = [(i, chunk) for start in rounds for chunk in range(chunks) for i in range(start, start + ranks)]
    forwards = [Forward(i, chunk) for i, chunk in order]
    backwards = [Backward(i, chunks - 1 - chunk) for i, chunk in order]
    for action in ahead(2 * (ranks - rank - 1) + (chunks - 1) * ranks, forwards, backwards):
        if action.microbatch < microbatches:
            yield action


def looped(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Action]:
    """All microbatches through chunk 0, all through chunk 1, …, and back: breadth first, GPipe on chunks.

    ::

        p=2, v=2, m=3
        rank 0  F0 F1 F2 F0:F1:F2:.. .. .. B0:B0:B1:B1:B2:B2:B0 B0 B1 B1 B2 B2
        rank 1  .. F0 F1 F2 F0:F1:F2:B0:B0:B1:B1:B2:B2:B0 B0 B1 B1 B2 B2

    Bubble (p-1)(F+B)/v for m ≥ p; a rank holds all m microbatches. What breadth first is for: a chunk's weights are
    gathered, and its gradients reduced, once for all microbatches, while other chunks compute.

    Lamy-Poirier, Breadth-First Pipeline Parallelism, arXiv:2211.05953.
    """
    for chunk in range(chunks):
        for i in range(microbatches):
            yield Forward(i, chunk)
    for chunk in reversed(range(chunks)):
        for i in range(microbatches):
            yield Backward(i, chunk)


SCHEDULES = (
    PipelineSchedule("interleaved", interleaved, chunks=2, flexible=True),
    PipelineSchedule("looped", looped, chunks=2, flexible=True),
)
