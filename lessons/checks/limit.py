"""What an answer may cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

KINDS = ("peers", "messages", "steps", "sent", "across", "memory")
PerRanks: TypeAlias = Callable[[int], int | Fraction]


@dataclass(frozen=True)
class Limit:
    """At most so much, for each number of ranks n; None is no limit.

    steps: messages one after the other, on the longest chain. messages: sent by a rank. sent: by a rank, as a share of
    the buffer. across: of that, to other nodes (schedules with an option ``local``, the ranks of a node). memory: that
    a rank allocates beside what it was given, at the worst moment, as a share of the buffer (bare code only). peers:
    ranks to which a rank sends.
    """

    steps: PerRanks | None = None
    messages: PerRanks | None = None
    sent: PerRanks | None = None
    across: PerRanks | None = None
    memory: PerRanks | None = None
    peers: PerRanks | None = None
