"""Timetables that learners write in place of the right ones: by function, the sentence that names the mistake.

All are programs ``(rank, ranks, microbatches, chunks)``; most are one slip away from the library's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import TypeAlias

from parallel.pipeline.looped import looped
from parallel.pipeline.one_chunk import ahead, gpipe, naive, one_forward_one_backward
from parallel.pipeline.schedule import Action, Backward, BackwardInput, BackwardWeight, Forward, Program
from parallel.pipeline.zero_bubble import zb_h2

Count: TypeAlias = Callable[[int, int], int]  # (rank, ranks) → how many


def _ahead(count: Count) -> Program:
    """Forwards run ``count`` ahead, then forward and backward take turns."""

    def program(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Action]:
        forwards: list[Action] = [Forward(i) for i in range(microbatches)]
        return ahead(max(count(rank, ranks), 0), forwards, [Backward(i) for i in range(microbatches)])

    return program


def _of_ranks(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Action]:
    """As many microbatches as there are ranks."""
    return gpipe(rank, ranks, ranks, chunks)


def _turns(forward: bool, backward: bool, rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Action]:
    """1F1B whose turns count wrongly: forwards from 0 again, or backwards from where the forwards are."""
    count = min(ranks - rank - 1, microbatches)
    yield from map(Forward, range(count))
    for i in range(microbatches - count):
        yield Forward(i if forward else count + i)
        yield Backward(count + i if backward else i)
    yield from map(Backward, range(microbatches - count, microbatches))


def _backward_first(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Action]:
    """1F1B whose turns begin with the backward."""
    count = min(ranks - rank - 1, microbatches)
    yield from map(Forward, range(count))
    for i in range(microbatches - count):
        yield Backward(i)
        yield Forward(count + i)
    yield from map(Backward, range(microbatches - count, microbatches))


def _rounds(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Action]:
    """GPipe with as many microbatches as ranks, again and again."""
    for start in range(0, microbatches, ranks):
        round = range(start, min(start + ranks, microbatches))
        yield from chain(map(Forward, round), map(Backward, round))


def _interleaved(
    count: Callable[[int, int, int], int],
    rank: int,
    ranks: int,
    microbatches: int,
    chunks: int,
    same: bool = False,
    width: Callable[[int, int], int] = min,
) -> Iterator[Action]:
    """Interleaved 1F1B, mistaken.

    count: (rank, ranks, chunks) → forwards ahead. same: backwards go through the chunks as forwards do. width: (ranks,
    microbatches) → how many microbatches go through a chunk before they go through the next one.
    """
    group = width(ranks, microbatches)
    order = [
        (i, chunk)
        for start in range(0, microbatches, group)
        for chunk in range(chunks)
        for i in range(start, min(start + group, microbatches))
    ]
    forwards: list[Action] = [Forward(i, chunk) for i, chunk in order]
    backwards: list[Action] = [Backward(i, chunk if same else chunks - 1 - chunk) for i, chunk in order]
    return ahead(count(rank, ranks, chunks), forwards, backwards)


def _megatron(rank: int, ranks: int, chunks: int) -> int:
    return 2 * (ranks - rank - 1) + (chunks - 1) * ranks


def _owed(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Action]:
    """1F1B with the input's half of each backward; the weights' halves all at the end."""
    for action in one_forward_one_backward(rank, ranks, microbatches, chunks):
        yield action if isinstance(action, Forward) else BackwardInput(action.microbatch)
    yield from map(BackwardWeight, range(microbatches))


LOOKALIKES: Mapping[str, Mapping[str, Program]] = {
    "naive": {
        "pipelines.naive.gpipe": gpipe,
        "pipelines.naive.ahead": one_forward_one_backward,
    },
    "gpipe": {
        "pipelines.gpipe.naive": naive,
        "pipelines.gpipe.ranks": _of_ranks,
        "pipelines.gpipe.rounds": _rounds,
    },
    "one_forward_one_backward": {
        "pipelines.one_forward_one_backward.gpipe": gpipe,
        "pipelines.one_forward_one_backward.naive": naive,
        "pipelines.one_forward_one_backward.one_more": _ahead(lambda rank, ranks: ranks - rank),
        "pipelines.one_forward_one_backward.one_less": _ahead(lambda rank, ranks: ranks - rank - 2),
        "pipelines.one_forward_one_backward.reversed": _ahead(lambda rank, ranks: rank),
        "pipelines.one_forward_one_backward.reversed_more": _ahead(lambda rank, ranks: rank + 1),
        "pipelines.one_forward_one_backward.same": _ahead(lambda rank, ranks: ranks - 1),
        "pipelines.one_forward_one_backward.same_more": _ahead(lambda rank, ranks: ranks),
        "pipelines.one_forward_one_backward.rounds": _rounds,
        "pipelines.one_forward_one_backward.backward_first": _backward_first,
        "pipelines.one_forward_one_backward.index": partial(_turns, True, False),
        "pipelines.one_forward_one_backward.backward_index": partial(_turns, False, True),
    },
    "interleaved": {
        "pipelines.interleaved.looped": looped,
        "pipelines.interleaved.once": partial(_interleaved, lambda rank, ranks, v: ranks - rank - 1 + (v - 1) * ranks),
        "pipelines.interleaved.chunks": partial(_interleaved, lambda rank, ranks, v: 2 * (ranks - rank - 1)),
        "pipelines.interleaved.one_more": partial(_interleaved, lambda *sizes: _megatron(*sizes) + 1),
        "pipelines.interleaved.all_chunks": partial(_interleaved, lambda rank, p, v: 2 * (p - rank - 1) + v * p),
        "pipelines.interleaved.same": partial(_interleaved, _megatron, same=True),
        "pipelines.interleaved.single": partial(_interleaved, _megatron, width=lambda ranks, m: 1),
        "pipelines.interleaved.breadth": partial(_interleaved, _megatron, width=lambda ranks, m: m),
        "pipelines.interleaved.one_chunk": one_forward_one_backward,
    },
    "golf": {
        "pipelines.golf.h2": zb_h2,
        "pipelines.golf.whole": one_forward_one_backward,
        "pipelines.golf.last": _owed,
    },
}
