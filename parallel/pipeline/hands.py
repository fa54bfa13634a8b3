"""What a hand-written schedule keeps count of, when it says "the next forward of chunk 1"."""

from __future__ import annotations

from collections import Counter, deque

from .schedule import Backward, BackwardInput, BackwardWeight, Forward


class Hands:
    """Gives a rank its work in the order of microbatches, chunk by chunk."""

    def __init__(self) -> None:
        self.forwards: Counter[int] = Counter()
        self.backwards: Counter[int] = Counter()
        self.owed: deque[BackwardWeight] = deque()

    def forward(self, chunk: int) -> Forward:
        self.forwards[chunk] += 1
        return Forward(self.forwards[chunk] - 1, chunk)

    def backward(self, chunk: int) -> Backward:
        self.backwards[chunk] += 1
        return Backward(self.backwards[chunk] - 1, chunk)

    def input(self, chunk: int) -> BackwardInput:
        """The half that is waited for; the other half is owed."""
        self.backwards[chunk] += 1
        action = BackwardInput(self.backwards[chunk] - 1, chunk)
        self.owed.append(BackwardWeight(action.microbatch, chunk))
        return action

    def weight(self) -> BackwardWeight:
        """The half that has been owed for longest."""
        return self.owed.popleft()
