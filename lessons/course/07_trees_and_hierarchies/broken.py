"""{{broken.file}}"""

from __future__ import annotations

from collections.abc import Iterator

from collectives import Reduce, Send


def doubling(rank: int, size: int) -> Iterator[tuple[Send, Reduce]]:
    """{{broken.doubling}}"""
    distance = 1
    while distance < size:
        partner = rank ^ distance
        if partner < size:
            yield Send(0, to=partner), Reduce(0, source=partner)
        distance *= 2
