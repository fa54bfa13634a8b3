"""{{broken.file}}"""

from __future__ import annotations

from collections.abc import Iterator

from parallel.pipeline import BackwardInput, BackwardWeight, Forward


def golf(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Forward | BackwardInput | BackwardWeight]:
    """{{broken.golf}}"""
    ahead = min(ranks - rank - 1, microbatches)
    for i in range(ahead):
        yield Forward(i)
    for i in range(microbatches):
        if ahead + i < microbatches:
            yield Forward(ahead + i)
        yield BackwardInput(i)
        # {{broken.behind}}
        if i >= rank:
            yield BackwardWeight(i - rank)
