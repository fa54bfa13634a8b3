"""What an answer cost, against what it may cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TypeAlias

from ..diagnosis import Dear, Rule, diagnose
from ..said import Finding, Passed, Said
from .limit import KINDS, Limit

Costs: TypeAlias = Mapping[str, int | Fraction]  # of the worst rank, by kind


def whole_buffers(function: str, limit: Limit, costs: Mapping[int, Costs]) -> Iterator[Finding]:
    """Whether every message is the whole buffer, where a share was enough: what is in it does not matter."""
    for size, cost in costs.items():
        if limit.sent is not None and cost["sent"] == cost["messages"] > limit.sent(size) and _shares(limit, size):
            yield diagnose(Dear(function, "sent", size, cost["sent"], limit.sent(size), cost, shares=True))
            return


def _shares(limit: Limit, size: int) -> bool:
    """Whether a message may be less than the whole buffer."""
    return limit.sent is not None and limit.messages is not None and limit.sent(size) < limit.messages(size)


def price(
    function: str, limit: Limit, costs: Mapping[int, Costs], rules: Sequence[Rule] = ()
) -> Iterator[Passed | Finding]:
    """Each kind of cost that has a limit, until one is over it: the others are its consequences.

    Args:
        costs: by number of ranks.
    """
    for what in KINDS:
        allowed = getattr(limit, what)
        got = {size: cost[what] for size, cost in costs.items() if what in cost}  # memory: of bare code only
        if allowed is None or not got:
            continue
        over = [size for size in got if got[size] > allowed(size)]
        if over:
            size = min(over, key=lambda size: (size < 4, size))
            dear = Dear(function, what, size, got[size], allowed(size), costs[size], _shares(limit, size))
            yield diagnose(dear, rules)
            return
        size = max((size for size in got if size <= 4), default=min(got))
        yield Passed(Said(f"check.{what}", {"ranks": size}), function, (size,), str(got[size]), str(allowed(size)))
