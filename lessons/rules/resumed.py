"""A run that goes on differently: which parts of the one that stopped did not come along."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from ..said import Finding, Said

if TYPE_CHECKING:
    from ..diagnosis import Unlike


def lacking(evidence: Unlike) -> Finding | None:
    """Several parts, but not all: each alone, and all of them, have sentences of their own."""
    from ..checks.experiments.resumed import PARTS, going_on

    for count in range(2, len(PARTS)):
        for parts in combinations(PARTS, count):
            if all(
                evidence.experiment.same(list(came), going_on(example, evidence.size, without=parts))
                for example, came in zip(evidence.examples, evidence.came, strict=True)
            ):
                missing = [Said(f"zero.hand_over.part.{part}") for part in parts]
                return Finding(Said("zero.hand_over.several", {"parts": missing}), evidence.function, evidence.size)
    return None
