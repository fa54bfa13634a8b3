"""Moments of a collective on paper: the ring with what is under way, and below it the grid of what every rank holds."""

from __future__ import annotations

import math

from ..replay import Replay
from .axis import time_text
from .moment import complete, held_at, under_way
from .palette import mix, scale, text_on
from .rows import end_of
from .shapes import Circle, Line, Rect, Shape, Text

_DARK, _MUTED, _RULE = "#1B2330", "#5B6675", "#D5DAE1"
_FRAMES = (0.25, 0.5, 0.75)
_MOST = 32  # ranks, and chunks: more could not be read at this size


def rings(shapes: list[Shape], replay: Replay, width: float, y: float) -> float:
    """Returns where the next thing may be drawn."""
    if not replay.moves or not 0 < max(replay.chunks, len(replay.starts)) <= _MOST:
        return y
    side = min(300.0, (width - 40) / len(_FRAMES) - 24)
    begin = min((move.start for move in replay.moves), default=0.0)  # after the launch
    shapes.append(Text(20, y + 8, replay.words("ring.title"), 12, _DARK, bold=True))
    y += 28
    bottom = y
    for number, share in enumerate(_FRAMES):
        time = begin + share * (end_of(replay) - begin)
        left = 20 + number * (width - 40) / len(_FRAMES)
        at = replay.words("ring.at", time=time_text(time, replay.unit, replay.words))
        shapes.append(Text(left + side / 2, y + 6, at, 12, _MUTED, "middle"))
        _ring(shapes, replay, time, left, y + 16, side)
        bottom = _grid(shapes, replay, time, left, y + side + 32, side)
    return bottom + 8


def _ring(shapes: list[Shape], replay: Replay, time: float, left: float, top: float, side: float) -> None:
    ranks, centre, radius = len(replay.starts), side / 2, side / 2 - 26
    node = min(13.0, math.pi * radius / ranks * 0.7)

    def at(rank: int) -> tuple[float, float]:
        angle = 2 * math.pi * rank / ranks - math.pi / 2
        return left + centre + radius * math.cos(angle), top + centre + radius * math.sin(angle)

    for move in under_way(replay, time):
        (x, y), (to_x, to_y) = at(move.source), at(move.to)
        length = math.hypot(to_x - x, to_y - y) or 1.0
        cut_x, cut_y = (to_x - x) / length * (node + 1), (to_y - y) / length * (node + 1)
        shapes.append(Line(((x + cut_x, y + cut_y), (to_x - cut_x, to_y - cut_y)), _MUTED, 1.4, arrow=True))
        if length > 3.4 * node:
            fill = scale(move.chunk, replay.chunks)
            middle = ((x + to_x) / 2, (y + to_y) / 2)
            tip = replay.words("ring.move", chunk=move.chunk, source=move.source, to=move.to)
            shapes.append(Circle(*middle, 8, fill, "#FFFFFF", tip))
            shapes.append(Text(*middle, str(move.chunk), 9, text_on(fill), "middle"))
    for rank in range(ranks):
        shapes.append(Circle(*at(rank), node, "#FFFFFF", _DARK, replay.words("rank", rank=rank)))
        shapes.append(Text(*at(rank), str(rank), min(12.0, node * 1.1), _DARK, "middle"))


def _grid(shapes: list[Shape], replay: Replay, time: float, left: float, top: float, side: float) -> float:
    held, whole = held_at(replay, time), complete(replay)
    cell = min(26.0, (side - 24) / replay.chunks)
    start = left + 24 + (side - 24 - cell * replay.chunks) / 2
    size = min(11.0, cell * 0.55)
    for chunk in range(replay.chunks):
        shapes.append(Text(start + (chunk + 0.5) * cell, top, str(chunk), size, _MUTED, "middle"))
    for rank, row in enumerate(held):
        y = top + 10 + rank * cell
        shapes.append(Text(start - 6, y + cell / 2, str(rank), size, _DARK, "end"))
        for chunk, count in enumerate(row):
            done = bool(count) and count == whole[chunk]
            share = count / whole[chunk] if whole[chunk] else 0.0
            fill = scale(chunk, replay.chunks) if done else mix("#FFFFFF", scale(chunk, replay.chunks), 0.45 * share)
            tip = replay.words("ring.cell", rank=rank, chunk=chunk, count=count, whole=whole[chunk])
            shapes.append(Rect(start + chunk * cell, y, cell - 1, cell - 1, fill, "", _RULE, tip))
            if count:
                ink = text_on(fill) if done else _DARK
                shapes.append(
                    Text(start + (chunk + 0.5) * cell - 0.5, y + cell / 2, str(count), size, ink, "middle", done)
                )
    return top + 10 + len(held) * cell
