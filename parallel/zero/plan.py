"""What ZeRO sends, in which order: the same on every rank, whatever the rank computes.

Layer 0 is what belongs to no layer (embeddings, the last norm, a tied head): whole from the first use to the last.
G: gather, F and B: run, R: reduce-scatter of its gradients, f: free. Three layers, prefetch 1, stage 3:

    forward    send   G0 G1 │ G2   │ G3   │      │               ahead of every layer, the next one travels
               run    F0    │ F1   │ F2   │ F3   │
               free         │    f1│    f2│    f3│ f0
    backward   send   G0 G3 │ G2   │R3 G1 │R2    │ R1 R0
               run    B0    │ B3   │ B2   │ B1   │               B0: the loss reaches the model's output
               free         │    f3│    f2│    f1│ f0

Stage 2 has only the R of it, stage 1 nothing: there all is reduced when the optimizer steps. A rank that skips a layer
still sends what the layer's turn asks for, so that nobody waits for it. No torch here: the simulator reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple


class Task(NamedTuple):
    """One thing to do with one layer; ``run`` is where the layer's own computation stands between the messages."""

    kind: Literal["gather", "run", "reduce"]
    layer: int


def forward(layers: int, prefetch: int, gathers: bool) -> list[Task]:
    """A forward pass, layers numbered 1 to ``layers``; ``gathers``: stage 3."""
    return list(_tasks(range(layers + 1), prefetch, gathers, reduces=False))


def backward(layers: int, prefetch: int, gathers: bool, reduces: bool) -> list[Task]:
    """A backward pass; ``gathers``: stage 3; ``reduces``: gradients are wanted now, not later."""
    return list(_tasks([0, *range(layers, 0, -1)], prefetch, gathers, reduces))


def _tasks(order: Sequence[int], prefetch: int, gathers: bool, reduces: bool) -> Iterator[Task]:
    for i, layer in enumerate(order):
        if gathers:
            for ahead in order[i + prefetch if i else 0 : i + prefetch + 1]:
                yield Task("gather", ahead)
        yield Task("run", layer)
        if reduces and layer:
            yield Task("reduce", layer)
    if reduces:
        yield Task("reduce", 0)


class Cursor:
    """Walks through a plan as autograd comes to the layers.

    Args:
        issue: sends a task.
        ready: whether a layer's gradients are complete, or will never come.

    A layer that runs before its turn (the model calls its layers in another order than it lists them, or one twice)
    pulls the tasks before it forward; of those, reductions that are not ready wait until the end of the pass.
    """

    def __init__(self, tasks: list[Task], issue: Callable[[Task], None], ready: Callable[[int], bool]) -> None:
        self._tasks, self._issue, self._ready = tasks, issue, ready
        self._turns = {task.layer: i for i, task in enumerate(tasks) if task.kind == "run"}
        self._next = 0
        self._late: list[Task] = []

    def reach(self, layer: int) -> None:
        """The layer is about to run: send all that stands before it."""
        while self._next <= self._turns[layer]:
            task = self._tasks[self._next]
            self._next += 1
            if task.kind == "reduce" and not self._ready(task.layer):
                self._late.append(task)
            elif task.kind != "run":
                self._issue(task)

    def go_on(self) -> None:
        """Something is complete: send what may go now."""
        while self._next < len(self._tasks):
            task = self._tasks[self._next]
            if task.kind == "run" or (task.kind == "reduce" and not self._ready(task.layer)):
                return
            self._next += 1
            self._issue(task)

    def finish(self) -> None:
        """The pass is over: send the rest."""
        rest, self._next = [*self._tasks[self._next :], *self._late], len(self._tasks)
        for task in rest:
            if task.kind != "run":
                self._issue(task)
