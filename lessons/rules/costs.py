"""Why a right answer costs too much."""

from __future__ import annotations

from collections.abc import Sequence

from ..diagnosis import Dear, Rule
from ..said import Finding, Said


def _whole_buffer(evidence: Dear) -> Finding | None:
    """Every message is the whole buffer, where a share was enough."""
    sent, messages = evidence.costs["sent"], evidence.costs["messages"]
    if evidence.what != "sent" or not evidence.shares or sent != messages:
        return None
    return _finding(evidence, "costs.whole")


def _bare_steps(evidence: Dear) -> Finding | None:
    """Bare code knows no yield."""
    return _finding(evidence, "costs.steps_bare") if evidence.what == "steps" and "memory" in evidence.costs else None


def _plain(evidence: Dear) -> Finding:
    return _finding(evidence, f"costs.{evidence.what}")


def _finding(evidence: Dear, sentence: str) -> Finding:
    fields = {"got": str(evidence.got), "limit": str(evidence.limit), "ranks": evidence.size}
    return Finding(Said(sentence, fields), evidence.function, evidence.size)


RULES: Sequence[Rule] = (_whole_buffer, _bare_steps, _plain)
