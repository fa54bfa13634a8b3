"""{{broken.file}}"""

from __future__ import annotations

from collections.abc import Iterator

from parallel.pipeline import Backward, Forward


def one_forward_one_backward(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Forward | Backward]:
    """{{broken.one_forward_one_backward}}"""
    ahead = ranks - rank - 1
    for i in range(ahead):
        yield Forward(i)
    # {{broken.turns}}
    for i in range(microbatches - ahead):
        yield Forward(ahead + i)
        yield Backward(i)
    for i in range(microbatches - ahead, microbatches):
        yield Backward(i)
