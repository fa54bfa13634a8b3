"""A microbatch on a stage: seconds by kind, forward and backward."""

from __future__ import annotations

from dataclasses import dataclass

from .arithmetic import pick
from .bubbles import Slot

NOTHING = (0.0, 0.0)
KINDS = ("compute", "tp", "cp", "ep", "dp", "p2p", "offload")


@dataclass(frozen=True)
class Directions:
    """Seconds of one microbatch on a stage, by kind: forward, and backward."""

    compute: tuple[float, float]
    tp: tuple[float, float]
    cp: tuple[float, float]
    ep: tuple[float, float]
    dp: tuple[float, float]
    p2p: tuple[float, float]
    offload: tuple[float, float]
    weight: float  # part of the backward that no other rank waits for

    def of(self, direction: int) -> float:
        """All kinds in one direction: 0 forward, 1 backward."""
        kinds = (self.compute, self.tp, self.cp, self.ep, self.dp, self.p2p, self.offload)
        return sum(kind[direction] for kind in kinds)

    @property
    def slot(self) -> float:
        """Forward and backward."""
        return self.of(0) + self.of(1)

    @property
    def as_slot(self) -> Slot:
        return Slot(self.of(0), self.of(1), self.weight)


def slower(heavy: Directions, rest: Directions, many: bool) -> Directions:
    """Of two stages the one that takes longer, where there are many."""
    behind = many & (rest.slot > heavy.slot)

    def chosen(name: str) -> tuple[float, float]:
        own, other = getattr(heavy, name), getattr(rest, name)
        return pick(behind, other[0], own[0]), pick(behind, other[1], own[1])

    each = {name: chosen(name) for name in KINDS}
    return Directions(**each, weight=pick(behind, rest.weight, heavy.weight))
