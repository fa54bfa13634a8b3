"""What the search looks through: every section of every text, as a script that pages load when somebody searches."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from ..markdown import parse
from ..reading import Reading
from .masthead import address


@dataclass(frozen=True)
class Entry:
    """A place that can be found. title: of the lesson, or the term; heading: what of it stands there."""

    address: str
    title: str
    heading: str
    text: str


def entries_of(reading: Reading) -> list[Entry]:
    """A lesson's sections. Hints and answers are not found: who looks for them would see what they want to find out."""
    texts = {name: reading.text(name) for name in reading.sections()}
    if reading.prediction:
        texts["predict"] = reading.prediction.question
    if reading.questions:
        texts["quiz"] = "\n\n".join(one.question for one in reading.questions)
    if reading.calculations:
        texts["calculate"] = "\n\n".join(one.question for one in reading.calculations)
    first, title = next(iter(texts), ""), f"{reading.lesson.number} · {reading.title}"
    return [
        Entry(
            f"{address(reading.lesson)}#{name}",
            title,
            reading.heading(name),
            (f"{reading.proves} " if name == first else "") + plain(text),
        )
        for name, text in texts.items()
    ]


def plain(markdown: str) -> str:
    """The words of a text, code included, in one line."""
    words = []
    for token in parse(markdown):
        if token.type == "inline":
            words.append("".join(child.content for child in token.children or ()))
        elif token.type == "fence":
            words.append(token.content)
    return " ".join(" ".join(words).split())


def as_script(entries: Iterable[Entry]) -> str:
    rows = ",\n".join(
        json.dumps([one.address, one.title, one.heading, one.text], ensure_ascii=False) for one in entries
    )
    return f'"use strict";\nconst ENTRIES = [\n{rows}\n];\n'
