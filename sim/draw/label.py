"""What a span's name says: its kind, its number, its model chunk, and how to write that in a narrow box."""

from __future__ import annotations

import re
from dataclasses import dataclass

from collectives.span import Span

from ..words import IN_ENGLISH, Words
from .palette import INKS

_WORDS = {
    "forward": "F",
    "backward": "B",
    "recompute": "R",
    "optimizer": "O",
    "step": "O",
    "sync": "S",
    "launch": "L",
    "receive": "recv",
    **dict.fromkeys(
        ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "gather", "scatter", "barrier"),
        "collective",
    ),
}


@dataclass(frozen=True, slots=True)
class Label:
    """kind: a key of ``palette.INKS``; texts: what to write, the longest first; chunk: of the model, from 0."""

    kind: str
    texts: tuple[str, ...]
    chunk: int = 0


def label_of(span: Span, words: Words = IN_ENGLISH) -> Label:
    """``F 3 c1`` is a forward of microbatch 3 through chunk 1; other names tell by their first word, or by the stream.

    >>> label_of(Span(0, "compute", "F 3 c1", 0.0, 1.0))
    Label(kind='F', texts=('F3c1', 'F3'), chunk=1)
    >>> label_of(Span(0, "send 0", "send 14-15", 0.0, 1.0)).texts
    ('send 14-15', '14-15')
    """
    match = re.fullmatch(r"([A-Z]) ?(\d+)(?: c(\d+))?", span.name)
    if match and match[1] in INKS:
        short = match[1] + match[2]
        return Label(match[1], (f"{short}c{match[3]}", short) if match[3] else (short,), int(match[3] or 0))
    kind = _kind(span)
    short = _cargo(span.name) or (kind if len(kind) == 1 else "") + _number(span.name)
    name = spoken(span.name, words)
    return Label(kind, (name, short) if short else (name,))


def spoken(name: str, words: Words) -> str:
    """The name of a span or a stream as pictures say it: ``send 0`` or ``send to 3`` in words, ``F 3`` as it is.

    Names are in one language only, because they tell what a span is.
    """
    match = re.fullmatch(r"(\w+) (to|from) (\d+)", name)
    if match and f"span.{match[1]}_{match[2]}" in words:
        return words(f"span.{match[1]}_{match[2]}", rank=match[3])
    first, space, rest = name.partition(" ")
    return words(f"span.{first}") + space + rest if f"span.{first}" in words else name


def _cargo(name: str) -> str:
    """What a message carries, whole: ``14-15`` of ``send 14-15``; or the other rank: ``→3`` of ``send to 3``.

    A part of it would be another chunk.
    """
    match = re.fullmatch(r"(?:send|recv|receive) (?:(to|from) )?(.+)", name)
    return {"to": "→", "from": "←", None: ""}[match[1]] + match[2] if match else ""


def _number(name: str) -> str:
    match = re.search(r" (\d+[a-z]?)$", name)
    return match[1] if match else ""


def _kind(span: Span) -> str:
    for text in (span.name, span.stream):
        word = text.partition(" ")[0]
        kind = word if word in INKS else _WORDS.get(word.lower())
        if kind:
            return kind
    return "other"
