"""Something to be said of a run whose ranks have left flight records. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass

from .sentence import Sentence


@dataclass(frozen=True)
class Finding:
    """What was found, and whom it is about.

    kind: ``died``, ``raised``, ``order``, ``operation``, ``dtype``, ``shape``, ``algorithm``, ``arguments``, ``cycle``,
    ``missing``, ``absent`` (missing without a record), ``late``, ``failed``; and what is nothing ``wrong``: ``slow``,
    ``unknown``, ``unreadable``.
    """

    kind: str
    sentence: Sentence
    ranks: tuple[int, ...] = ()
    wrong: bool = True
