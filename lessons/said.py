"""What the course says, before it is in a language: the id of a sentence, and what it is said of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from collectives.sentence import Sentence


@dataclass(frozen=True)
class Said:
    """A sentence of the catalogue: ``Said("diagnosis.twice", {"rank": 2})``.

    A field may be a number, a str (names, code and places, which are the same in every language), another sentence, or
    a sequence of these.
    """

    id: str
    fields: Mapping[str, object] = field(default_factory=dict)


Speech: TypeAlias = Said | Sentence | str


@dataclass(frozen=True)
class Finding:
    """What is wrong with a learner's answer.

    sentence: names the mistake and how to mend it. function: of the learner's file, or empty. ranks: with how many it
    shows, or 0. picture: lines of text, in the learner's language already. details: said below, for instance a
    traceback.
    """

    sentence: Speech
    function: str = ""
    ranks: int = 0
    picture: tuple[str, ...] = ()
    details: tuple[Speech, ...] = ()


@dataclass(frozen=True)
class Passed:
    """A property that holds. got and limit: what was measured and what was allowed, where there is such a thing."""

    sentence: Speech
    function: str = ""
    ranks: tuple[int, ...] = ()
    got: str = ""
    limit: str = ""


@dataclass(frozen=True)
class Shown:
    """What was measured: for information, with no verdict.

    lines: a table, in the learner's language already. details: said below it. numbers: the same for programs.
    """

    sentence: Speech
    lines: tuple[str, ...] = ()
    details: tuple[Speech, ...] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Skipped:
    """A function that was not looked at, because of another one that is wrong."""

    sentence: Speech
    function: str
