"""One chunk of the model on one rank: forward and backward of a microbatch, and what is kept in between."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from ..deferred import Entry, Owed
from ..recompute import checkpoint

Complete = Callable[[Iterable[nn.Parameter]], None]


@dataclass(slots=True)
class Held:
    """What is kept of a microbatch: inputs that need a gradient, and where the graph of the outputs ends.

    The edge is enough for the backward; an output itself may go when it has been sent.
    """

    inputs: list[Tensor]
    edges: list[GradientEdge]


class Chunk:
    """A module that a pipeline runs.

    Args:
        recompute: keep the inputs only, and run a second time in the backward.
        owed: where its layers put off their weight gradients; None: they do not.
    """

    def __init__(self, module: nn.Module, recompute: bool, owed: Owed | None) -> None:
        self.module, self._recompute, self._owed = module, recompute, owed
        self._held: dict[int, Held] = {}
        self._entries: dict[int, list[Entry]] = {}

    def forward(self, microbatch: int, inputs: Sequence[Any], then: Callable[[Any], Tensor] | None) -> list[Tensor]:
        """The outputs, of which only their graph is kept; ``then`` makes the loss of them, on the last stage.

        Raises:
            ValueError: the module returned no tensors.
        """
        with torch.enable_grad():
            output = checkpoint(self.module, *inputs) if self._recompute else self.module(*inputs)
            if then is not None:
                output = then(output)
        outputs = list(output) if isinstance(output, (tuple, list)) else [output]
        if not all(isinstance(tensor, Tensor) for tensor in outputs):
            name = type(self.module).__name__
            raise ValueError(f"{name} returned {type(output).__name__}: let a stage return a tensor or a tuple of such")
        leaves = [x for x in inputs if isinstance(x, Tensor) and x.requires_grad and x.is_leaf]
        edges = [get_gradient_edge(tensor) for tensor in outputs if tensor.requires_grad]
        self._held[microbatch] = Held(leaves, edges)
        return outputs

    def backward(self, microbatch: int, gradients: Sequence[Tensor]) -> list[Tensor]:
        """The gradients of the inputs that need one, from those of the outputs that have one (none: the loss itself).

        Weights get theirs too, or they are owed.
        """
        held = self._held.pop(microbatch)
        if held.edges:
            torch.autograd.backward(held.edges, gradients or None)
        self._entries[microbatch] = self._owed.take() if self._owed is not None else []
        found = [torch.zeros_like(x) if x.grad is None else x.grad for x in held.inputs]
        for x in held.inputs:
            x.grad = None
        return found

    def pay(self, microbatch: int, complete: Complete | None = None) -> None:
        """The weight gradients that this microbatch still owes.

        Args:
            complete: told of each parameter when it has its gradient: this is the last microbatch.
        """
        entries = self._entries.pop(microbatch)
        last = {id(p): place for place, entry in enumerate(entries) for p in entry.parameters}
        if complete is not None:
            complete(p for p in self.module.parameters() if id(p) not in last)
        for place in range(len(entries)):
            entry, entries[place] = entries[place], None  # type: ignore[call-overload]  # its memory goes with it
            entry.pay()
            if complete is not None:
                complete(p for p in entry.parameters if last[id(p)] == place)

    def drop(self) -> None:
        """Forget what is kept: the step has failed."""
        self._held.clear()
        self._entries.clear()
        if self._owed is not None:
            self._owed.take()
