"""One moment of a run: what every rank's chunks hold, and what is under way."""

from __future__ import annotations

from ..replay import Moved, Replay

_CLOSE = 1 + 1e-9  # a moment is often the end of a move, computed another way


def held_at(replay: Replay, time: float) -> list[list[int]]:
    """``[rank][chunk]``: whose contributions it holds, counted."""
    held = [list(row) for row in replay.starts]
    for move in sorted(replay.moves, key=lambda move: move.end):
        if move.end <= time * _CLOSE:
            held[move.to][move.chunk] = move.holds
    return held


def under_way(replay: Replay, time: float) -> list[Moved]:
    return [
        move for move in replay.moves if move.start <= time * _CLOSE < move.end * _CLOSE and move.end > time * _CLOSE
    ]


def complete(replay: Replay) -> list[int]:
    """For every chunk the most that any rank ever holds of it."""
    most = [max((row[chunk] for row in replay.starts), default=0) for chunk in range(replay.chunks)]
    for move in replay.moves:
        most[move.chunk] = max(most[move.chunk], move.holds)
    return most
