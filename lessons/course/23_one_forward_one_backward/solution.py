"""{{solution.file}}"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from parallel.pipeline import Backward, Forward


def take_turns(ahead: int, forwards: Sequence[Forward], backwards: Sequence[Backward]) -> Iterator[Forward | Backward]:
    """{{solution.take_turns}}"""
    ahead = min(ahead, len(forwards))
    yield from forwards[:ahead]
    for forward, backward in zip(forwards[ahead:], backwards, strict=False):
        yield forward
        yield backward
    yield from backwards[len(forwards) - ahead :]


def one_forward_one_backward(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Forward | Backward]:
    """{{solution.one_forward_one_backward}}"""
    order = range(microbatches)
    return take_turns(ranks - rank - 1, [Forward(i) for i in order], [Backward(i) for i in order])


def in_flight(rank: int, ranks: int, microbatches: int) -> int:
    """{{solution.in_flight}}"""
    return min(microbatches, ranks - rank)


# {{course.extra}}


def interleaved(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Forward | Backward]:
    """{{solution.interleaved}}"""
    order = [
        (i, chunk)
        for start in range(0, microbatches, ranks)
        for chunk in range(chunks)
        for i in range(start, start + ranks)
    ]
    forwards = [Forward(i, chunk) for i, chunk in order]
    # {{solution.last_first}}
    backwards = [Backward(i, chunks - 1 - chunk) for i, chunk in order]
    return take_turns(2 * (ranks - rank - 1) + (chunks - 1) * ranks, forwards, backwards)


def interleaved_bubble(ranks: int, microbatches: int, chunks: int) -> float:
    """{{solution.interleaved_bubble}}"""
    return (ranks - 1) / (chunks * microbatches + ranks - 1)
