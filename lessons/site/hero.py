"""The picture on the first page: a ring all-reduce that walks, from the schedule that lesson 5 writes."""

from __future__ import annotations

import json
import math
from html import escape

from ..catalogue import Catalogue

RANKS = 6
_WIDTH, _HEIGHT, _RADIUS = 440, 430, 165  # of the drawing, and of the ring
_CARD, _TALL, _BAR, _GAP = 116, 90, 11, 5  # a rank: its width and height, its bars and what is between them
_TOP, _FULL = 28, 50  # of a bar that is complete: where it begins, its height


def hero(say: Catalogue) -> str:
    """A drawing of who holds how much of which sum; the page's script lets it walk. Without it the end is shown."""
    from collectives.proof import moves
    from collectives.registry import find
    from sim.draw.palette import scale

    steps: list[list[tuple[int, int, int, int]]] = []  # step → source, rank, chunk, of how many ranks it holds now
    for move in moves(find("all_reduce", "ring"), RANKS):
        if move.round > len(steps):
            steps.append([])
        steps[-1].append((move.source, move.to, move.target[1], move.content[1].bit_count()))
    colours = [scale(chunk, RANKS) for chunk in range(RANKS)]
    ranks = "".join(_rank(rank, colours, say) for rank in range(RANKS))
    centre = f"{_WIDTH / 2:g} {_HEIGHT / 2:g}"
    title = escape(say("site.hero.title", ranks=RANKS))
    words = {name: escape(say(f"site.hero.{name}")) for name in ("play", "pause", "step")}
    status = escape(say("site.hero.at", step="0", all=len(steps)))
    template = escape(say("site.hero.at", step="#", all=len(steps)))
    return (
        f'<figure class="hero" data-steps="{escape(json.dumps(steps, separators=(",", ":")))}" data-ranks="{RANKS}" '
        f'data-full="{_FULL}" data-at="{template}">'
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{title}">'
        f'<circle class="ring" cx="{centre.split()[0]}" cy="{centre.split()[1]}" r="{_RADIUS}"/>'
        f'{ranks}<g class="on-the-way"></g></svg>'
        f'<figcaption>{title} <span class="note">{escape(say("site.hero.how"))}</span>'
        f'<span class="controls" data-script hidden><button type="button" class="play" data-play="{words["play"]}" '
        f'data-pause="{words["pause"]}">{words["play"]}</button>'
        f'<button type="button" class="step">{words["step"]}</button> <span class="at">{status}</span></span>'
        "</figcaption></figure>"
    )


def _rank(rank: int, colours: list[str], say: Catalogue) -> str:
    """A card with a bar a chunk, all full."""
    angle = 2 * math.pi * rank / RANKS - math.pi / 2
    x = _WIDTH / 2 + _RADIUS * math.cos(angle) - _CARD / 2
    y = _HEIGHT / 2 + _RADIUS * math.sin(angle) - _TALL / 2
    left = (_CARD - RANKS * _BAR - (RANKS - 1) * _GAP) / 2
    bars = "".join(
        f'<rect class="room" x="{left + chunk * (_BAR + _GAP):g}" y="{_TOP}" width="{_BAR}" height="{_FULL}"/>'
        f'<rect class="bar" x="{left + chunk * (_BAR + _GAP):g}" y="{_TOP}" width="{_BAR}" height="{_FULL}" '
        f'fill="{colour}"/>'
        for chunk, colour in enumerate(colours)
    )
    name = escape(say("site.hero.rank", rank=rank))
    return (
        f'<g class="rank" transform="translate({x:.1f} {y:.1f})"><rect class="card" width="{_CARD}" height="{_TALL}" '
        f'rx="10"/><text x="{_CARD / 2:g}" y="19">{name}</text>{bars}</g>'
    )
