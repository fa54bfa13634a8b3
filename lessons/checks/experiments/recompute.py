"""A checkpointed segment beside the library's: outputs, gradients, what is kept, and the random numbers after it."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from parallel.recompute import checkpoint

from ..experiment import Experiment


class Segment:
    """Two products with dropout between them; it counts its runs, and sees which of its tensors live on."""

    def __init__(self, dropout: float) -> None:
        random = torch.Generator().manual_seed(1)
        self.weights = [
            torch.randn(shape, generator=random, dtype=torch.float64).requires_grad_() for shape in ((8, 4), (4, 8))
        ]
        self.dropout, self.runs = dropout, 0
        self._made: list[weakref.ref[torch.UntypedStorage]] = []

    def __call__(self, x: Tensor) -> Tensor:
        self.runs += 1
        first = F.linear(x, self.weights[0])  # autograd saves a transposed view of the weight, as with nn.Linear
        second = F.gelu(first)
        third = F.dropout(second, self.dropout)
        self._made += [weakref.ref(one.untyped_storage()) for one in (first, second, third)]
        return F.linear(third, self.weights[1])

    @property
    def kept(self) -> int:
        """Bytes inside of it that somebody still holds."""
        alive = {storage._cdata: storage.nbytes() for ref in self._made if (storage := ref()) is not None}
        return sum(alive.values())


def _arguments(dropout: float, rank: int, size: int) -> tuple[Segment, Tensor]:
    torch.manual_seed(5)
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64).requires_grad_()
    return Segment(dropout), x


def _outcome(arguments: tuple[Segment, Tensor], output: Any) -> Any:
    """What came out, what is kept, and then, after the backward, gradients and the next random number."""
    segment, x = arguments
    if not isinstance(output, Tensor):
        return output
    kept, between = segment.kept, float(torch.rand(()))
    if output.shape != x.shape or not output.requires_grad:  # nothing to go backward through
        return {"output": output}
    output.backward(torch.linspace(-1, 2, output.numel(), dtype=output.dtype).view_as(output))
    return {
        "output": output,
        "gradient of x": x.grad,
        "gradients of weights": [weight.grad for weight in segment.weights],
        "runs": segment.runs,
        "bytes kept inside": kept,
        "random number between": between,
        "random number after": float(torch.rand(())),
    }


class Faulty(torch.autograd.Function):
    """A checkpoint as learners write it; ``faults`` says what is wrong."""

    @staticmethod
    def forward(ctx: Any, function: Segment, x: Tensor, faults: tuple[str, ...]) -> Tensor:
        ctx.function, ctx.faults, ctx.state = function, faults, torch.get_rng_state()
        ctx.save_for_backward(x)
        return function(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (x,), state = ctx.saved_tensors, torch.get_rng_state()
        if "mask" not in ctx.faults:
            torch.set_rng_state(ctx.state)
        again = x if "attached" in ctx.faults else x.detach().requires_grad_("no_input" not in ctx.faults)
        with torch.enable_grad():
            output = ctx.function(again)
        if "stream" not in ctx.faults:
            torch.set_rng_state(state)
        gradient = torch.ones_like(output) if "ones" in ctx.faults else gradients[0]
        if "no_weights" in ctx.faults:
            return None, torch.autograd.grad(output, again, gradient)[0], None
        torch.autograd.backward(output, gradient)
        return None, again.grad, None


def _played(run: Any) -> Any:
    """Every rank's outcome with this checkpoint."""

    def outcomes(dropout: float, size: int) -> list[Any]:
        state = torch.get_rng_state()
        try:
            found = []
            for rank in range(size):
                arguments = _arguments(dropout, rank, size)
                found.append(_outcome(arguments, run(*arguments)))
            return found
        finally:
            torch.set_rng_state(state)

    return outcomes


def _faulty(*faults: str) -> Any:
    return _played(lambda function, x: Faulty.apply(function, x, faults))  # type: ignore[no-untyped-call]


CHECKPOINT = Experiment(
    examples=lambda size: (0.0, 0.5),
    arguments=_arguments,
    outcome=_outcome,
    expected=_played(checkpoint),
    mistakes={
        "memory.checkpoint.keeps_all": _played(lambda function, x: function(x)),
        "memory.checkpoint.other_mask": _faulty("mask", "stream"),
        "memory.checkpoint.rewinds": _faulty("stream"),
        "memory.checkpoint.attached": _faulty("attached"),
        "memory.checkpoint.no_weights": _faulty("no_weights"),
        "memory.checkpoint.no_input": _faulty("no_input"),
        "memory.checkpoint.ones": _faulty("ones"),
        "memory.checkpoint.no_weights_other_mask": _faulty("no_weights", "mask", "stream"),
    },
)
