"""What is wrong with a pipeline by hand whose ranks raised."""

from __future__ import annotations

from collectives.launch import RankFailed

from ..diagnosis import Broken, Rule
from ..picture import log_lines
from ..said import Finding, Said

_NO_TENSOR = "Expected parameter `tensor`"  # what torch.distributed says of None


def _no_leaf(evidence: Broken) -> Finding | None:
    """A gradient was to be sent that autograd has not made, as nothing asked for it."""
    if not isinstance(evidence, Broken) or not isinstance(evidence.failure, RankFailed):
        return None
    if _NO_TENSOR not in evidence.failure.reason:
        return None
    said = Said("pipelines.pipeline_step.no_leaf", {"rank": evidence.failure.rank})
    return Finding(said, evidence.function, evidence.size, tuple(log_lines(evidence.log, evidence.say)))


BY_HAND: tuple[Rule, ...] = (_no_leaf,)
