"""{{stub.file}}"""

from __future__ import annotations

from collections.abc import Iterator

from parallel.pipeline import Backward, Forward


def one_forward_one_backward(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Forward | Backward]:
    """{{stub.one_forward_one_backward}}"""
    # TODO: {{stub.one_forward_one_backward_todo}}
    raise NotImplementedError


def in_flight(rank: int, ranks: int, microbatches: int) -> int:
    """{{stub.in_flight}}"""
    # TODO: {{stub.in_flight_todo}}
    raise NotImplementedError


# {{course.extra}}


def interleaved(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Forward | Backward]:
    """{{stub.interleaved}}"""
    # TODO: {{stub.interleaved_todo}}
    raise NotImplementedError


def interleaved_bubble(ranks: int, microbatches: int, chunks: int) -> float:
    """{{stub.interleaved_bubble}}"""
    # TODO: {{stub.interleaved_bubble_todo}}
    raise NotImplementedError
