"""{{broken.file}}"""

from __future__ import annotations

from collections.abc import Iterator

from collectives import Reduce, Send


def reduce_scatter(rank: int, size: int) -> Iterator[tuple[Send | Reduce, ...]]:
    """{{broken.reduce_scatter}}"""
    peers = [(rank + distance) % size for distance in range(1, size)]
    sends = [Send(rank, to=peer) for peer in peers]
    arrivals = [Reduce(rank, source=peer) for peer in peers]
    yield (*sends, *arrivals)
