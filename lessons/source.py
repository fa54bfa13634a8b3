"""The code of a lesson, with its comments in the learner's language.

``{{stub.rotate}}`` in ``stub.py`` stands for the sentence ``lessonNN.stub.rotate``. Those of ``course`` are for
all lessons.
"""

from __future__ import annotations

import re
from importlib.resources import files

from .catalogue import Catalogue
from .lesson import Lesson
from .reading import Reading

SHARED = "course."
_PLACEHOLDER = re.compile(r"(?P<before>[^\n]*?)\{\{(?P<key>[\w.]+)\}\}(?P<quotes>\"\"\")?")


def has_source(lesson: Lesson, name: str) -> bool:
    return (files(__package__) / "course" / lesson.folder / f"{name}.py").is_file()


def source_of(lesson: Lesson, name: str, say: Catalogue) -> str:
    """``stub.py``, ``solution.py`` or ``broken.py`` (its ``name``) as the learner reads it.

    Further lines of a sentence stand under its first one, behind a ``#`` if it is in a comment.

    Raises:
        KeyError: the catalogue has no such sentence.
    """
    reading = Reading(lesson, say)

    def fill(match: re.Match[str]) -> str:
        before, key = match["before"], match["key"]
        lines = (say(key) if key.startswith(SHARED) else reading.text(key)).split("\n")
        margin = before[: len(before) - len(before.lstrip())]
        rest = margin
        if before.lstrip().startswith("#"):
            rest = margin + "#" + " " * (len(before) - len(margin) - 1)
        text = before + "\n".join([lines[0], *((rest + line).rstrip() for line in lines[1:])])
        if match["quotes"]:
            text += "\n" + margin if len(lines) > 1 else ""
            text += match["quotes"]
        return text

    code = (files(__package__) / "course" / lesson.folder / f"{name}.py").read_text("utf-8")
    return _PLACEHOLDER.sub(fill, code)
