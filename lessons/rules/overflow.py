"""A result that is infinite, or no number, where the same function is right on smaller ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..said import Finding, Said

if TYPE_CHECKING:
    from ..diagnosis import Unlike


def overflow(evidence: Unlike) -> Finding | None:
    """Of a cross-entropy: the first example is right, and what is wrong has no finite value."""
    from torch import Tensor

    wrong = evidence.wrong
    if any(number == 0 for number, _ in wrong):
        return None
    values = [first.got for first in wrong.values()]
    if any(isinstance(value, Tensor) and not bool(value.isfinite().all()) for value in values):
        return Finding(Said("tensor.cross_entropy.overflow"), evidence.function, evidence.size)
    return None
