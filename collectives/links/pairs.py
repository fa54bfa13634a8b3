"""Every pair of ranks once, in rounds of pairs that do not share a rank. Needs no torch.

The first stays, the others go round it (the circle method, in which clubs play a season)::

    4 ranks    0 1    0 2    0 3         an odd number: one rank rests in every round, and there
               3 2    1 3    2 1         are n rounds instead of n - 1
"""

from __future__ import annotations


def rounds(ranks: int) -> list[list[tuple[int, int]]]:
    """n - 1 rounds of n / 2 pairs (lower, higher); n rounds for an odd n. O(n²)."""
    circle: list[int] = list(range(ranks + ranks % 2))  # the last of an odd number is nobody
    found = []
    for _ in range(len(circle) - 1):
        half = len(circle) // 2
        opposite = zip(circle[:half], reversed(circle[half:]), strict=True)
        found.append([(min(pair), max(pair)) for pair in opposite if max(pair) < ranks])
        circle = [circle[0], circle[-1], *circle[1:-1]]
    return found
