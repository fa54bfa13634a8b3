"""DualPipeV: two chunks a rank in a V, and a forward of one that overlaps the backward of the other."""

from __future__ import annotations

from collections.abc import Iterator

from .hands import Hands
from .schedule import Action, PipelineSchedule, Step, vee


def dualpipev(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Action | Step]:
    """Forward and backward of different chunks run at the same time, so that one computes while the other sends.

    ::

        p=2, m=5; chunk 1 is marked ':', '&' is an overlapped pair, backwards and pairs take two slots
        rank 0  F0  F1  F2  F0: I0: W0: F1: F3&B1:  ..  F2:&B0  F4&B2:  F3:&B1  B3: B3: F4:&B2  B4: B4: I3  W3  I4  W4
        rank 1  ..  F0  F0: F1  F1: F2  B0: B0: F2:&B0  F3&B1:  F3:&B1  F4&B2:  F4:&B2  B3: B3: B3  B3  I4: I4  W4: W4

    The first half of DeepSeek's bidirectional DualPipe, folded: no weights are held twice. Bubble, in times of a chunk,
    (p-1)(F&B + B - 3W) where F = W and F&B = F + B; less where overlap is worth something. A rank holds p + 1/2
    microbatches. With fewer than 2p microbatches those that are missing are left out.

    DeepSeek-AI, DeepSeek-V3 Technical Report, arXiv:2412.19437; the folding is of Sea AI Lab ("cut-in-half").
    """
    do, count = Hands(), max(microbatches, 2 * ranks)
    others = ranks - rank - 1  # ranks below this one

    def enough() -> Iterator[Action | Step]:
        for _ in range(2 * others):
            yield do.forward(0)
        for _ in range(rank + 1):
            yield from (do.forward(0), do.forward(1))
        for _ in range(others):
            yield from (do.input(1), do.weight(), do.forward(1))
        for turn in range(count - 2 * ranks + rank + 1):
            if turn == 0 and others == 0:  # nothing is under way that an overlap could hide
                yield from (do.forward(0), do.backward(1))
            else:
                yield do.forward(0), do.backward(1)
            yield do.forward(1), do.backward(0)
        for _ in range(others):
            yield do.backward(1)
            yield do.forward(1), do.backward(0)
        for turn in range(2 * (rank + 1)):  # the second half of these cut in two
            chunk = 1 - turn % 2
            yield do.input(chunk) if turn > rank else do.backward(chunk)
        for _ in range(others):
            yield from (do.weight(), do.input(0))
        while do.owed:
            yield do.weight()

    for step in enough():
        actions = tuple(a for a in (step if isinstance(step, tuple) else (step,)) if a.microbatch < microbatches)
        if actions:
            yield actions


SCHEDULES = (PipelineSchedule("dualpipev", dualpipev, vee, chunks=2),)
