# expects: one_forward_one_backward: forwards of the turns from 0 again
# finding: one_forward_one_backward pipelines.one_forward_one_backward.index
# says: In the turns the forward counts from 0 again. The ones that ran ahead are done: go on with Forward(ahead + i), beside Backward(i).
from __future__ import annotations

from collections.abc import Iterator, Sequence

from parallel.pipeline import Backward, Forward


def take_turns(ahead: int, forwards: Sequence[Forward], backwards: Sequence[Backward]) -> Iterator[Forward | Backward]:
    ahead = min(ahead, len(forwards))
    yield from forwards[:ahead]
    for forward, backward in zip(forwards[ahead:], backwards, strict=False):
        yield forward
        yield backward
    yield from backwards[len(forwards) - ahead :]


def one_forward_one_backward(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Forward | Backward]:
    ahead = min(ranks - rank - 1, microbatches)
    for i in range(ahead):
        yield Forward(i)
    for i in range(microbatches - ahead):
        yield Forward(i)
        yield Backward(i)
    for i in range(microbatches - ahead, microbatches):
        yield Backward(i)


def in_flight(rank: int, ranks: int, microbatches: int) -> int:
    return min(microbatches, ranks - rank)


def interleaved(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Forward | Backward]:
    order = [
        (i, chunk)
        for start in range(0, microbatches, ranks)
        for chunk in range(chunks)
        for i in range(start, start + ranks)
    ]
    forwards = [Forward(i, chunk) for i, chunk in order]
    backwards = [Backward(i, chunks - 1 - chunk) for i, chunk in order]
    return take_turns(2 * (ranks - rank - 1) + (chunks - 1) * ranks, forwards, backwards)


def interleaved_bubble(ranks: int, microbatches: int, chunks: int) -> float:
    return (ranks - 1) / (chunks * microbatches + ranks - 1)
