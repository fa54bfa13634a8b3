"""Every sentence that a learner sees, by id, in one folder of TOML files per language.

The first word of an id is the file, the rest are its tables: ``runner.next`` is ``next`` in ``runner.toml``,
``lesson04.hints.two`` is ``two`` of table ``hints`` in ``lesson04.toml``. Files are read when they are asked for.
Fields stand in braces, ``{rank}``, as in ``str.format``; a brace itself is doubled. The sentences of ``collectives``
and the words of ``sim``'s pictures are English in the code; other languages have them in ``collectives.toml`` and
``sim.toml``.
"""

from __future__ import annotations

import locale
import os
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from collectives.sentence import Sentence

from ..said import Said, Speech

LANGUAGES = ("en", "zh")


class Catalogue:
    """The sentences of one language; what it lacks is said in English."""

    def __init__(self, language: str = "en") -> None:
        if language not in LANGUAGES:
            raise ValueError(f"language={language!r}: use one of {', '.join(LANGUAGES)}")
        self.language = language
        self._files: dict[str, Mapping[str, str]] = {}
        self._english = self if language == "en" else Catalogue()

    def table(self, name: str) -> Mapping[str, str]:
        """All sentences of one file, by id without its first word; empty if there is no such file."""
        if name not in self._files:
            path = files(__package__) / self.language / f"{name}.toml"
            self._files[name] = dict(flat(tomllib.loads(path.read_text("utf-8")))) if path.is_file() else {}
        return self._files[name]

    def has(self, id: str) -> bool:
        name, _, rest = id.partition(".")
        return rest in self.table(name) or (self._english is not self and self._english.has(id))

    def template(self, id: str) -> str:
        """The text of an id as it stands in the file.

        Raises:
            KeyError: no language has it.
        """
        name, _, rest = id.partition(".")
        table = self.table(name)
        if rest in table:
            return table[rest]
        if self._english is self:
            raise KeyError(f"the catalogue has no sentence {id!r}")
        return self._english.template(id)

    def __call__(self, id: str, /, **fields: object) -> str:
        """``say`` for an id that is written here."""
        return self.template(id).format(**{name: self.say(value) for name, value in fields.items()})

    def say(self, what: object) -> Any:
        """A sentence in this language; numbers stay numbers, sequences become a list with commas."""
        if isinstance(what, Said):
            return self(what.id, **what.fields)
        if isinstance(what, Sentence):
            return what.said_with(self.table("collectives"), self("runner.comma"))
        if isinstance(what, Sequence) and not isinstance(what, str):
            return self("runner.comma").join(str(self.say(one)) for one in what)
        return what


def flat(tree: Mapping[str, Any], before: str = "") -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for name, value in tree.items():
        if isinstance(value, Mapping):
            pairs += flat(value, f"{before}{name}.")
        else:
            pairs.append((before + name, value.strip("\n")))
    return pairs


def usual_language(environment: Mapping[str, str] = os.environ) -> str:
    """What the learner's system speaks, if the course does: from LC_ALL, LC_MESSAGES or LANG, else from the system."""
    said = next((environment[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if environment.get(name)), None)
    if said is None:
        said = locale.getlocale()[0] or ""
    return "zh" if said.lower().startswith(("zh", "chinese")) else "en"


__all__ = ["LANGUAGES", "Catalogue", "Speech", "usual_language"]
