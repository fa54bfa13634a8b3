"""What autograd saves, put into other memory, beside the library's way of doing so: every byte is counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from parallel.offload import Activations

from ..experiment import Experiment
from .recompute import Segment


class Host:
    """Memory that is not the device's: bytes, of which tensors are made again. out, back: bytes that have moved."""

    def __init__(self) -> None:
        self.out = self.back = 0

    def put(self, tensor: Tensor) -> Parcel:
        self.out += tensor.nbytes
        return Parcel(self, tensor.detach().contiguous().numpy().tobytes(), tensor.shape, tensor.dtype)


@dataclass(frozen=True)
class Parcel:
    """A tensor that has been put away."""

    host: Host
    data: bytes
    shape: torch.Size
    dtype: torch.dtype

    def fetch(self) -> None:
        """It is wanted soon: there is nothing to do in advance."""

    def get(self) -> Tensor:
        self.host.back += len(self.data)
        return torch.frombuffer(bytearray(self.data), dtype=self.dtype).view(self.shape)


def _arguments(least: int, rank: int, size: int) -> tuple[Segment, Tensor, Host, Sequence[Tensor], int]:
    torch.manual_seed(5)
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64).requires_grad_()
    segment = Segment(0.5)
    return segment, x, Host(), segment.weights, least


def _outcome(arguments: tuple[Segment, Tensor, Host, Sequence[Tensor], int], output: Any) -> Any:
    """What came out, what has moved until then, what is kept; then gradients, and what has come back."""
    segment, x, host, weights, _ = arguments
    if not isinstance(output, Tensor):
        return output
    out, early, kept = host.out, host.back, segment.kept
    if output.shape != x.shape or not output.requires_grad:
        return {"output": output}
    output.backward(torch.ones_like(output))
    return {
        "output": output.detach(),
        "gradient of x": x.grad,
        "gradients of weights": [weight.grad for weight in weights],
        "bytes out": out,
        "bytes back before the backward": early,
        "bytes back": host.back,
        "bytes kept inside": kept,
    }


Moved = Callable[[Segment, Tensor, Host, Sequence[Tensor], int], Tensor]


def _library(function: Segment, x: Tensor, host: Host, keep: Sequence[Tensor], least: int) -> Tensor:
    with Activations(host, keep, least):
        return function(x)


def _moving(
    weights: bool = False, small: bool = False, keeps: bool = False, at_once: bool = False, stays: str = "below"
) -> Moved:
    """Hooks with faults."""

    def moved(function: Segment, x: Tensor, host: Host, keep: Sequence[Tensor], least: int) -> Tensor:
        known = {tensor.data_ptr() for tensor in keep}
        gone: list[Any] = []

        def pack(tensor: Tensor) -> Any:
            amount = {"below": tensor.nbytes, "equal": tensor.nbytes - 1, "elements": tensor.numel()}[stays]
            if (tensor.data_ptr() in known and not weights) or (amount < least and not small):
                return tensor
            parcel = host.put(tensor)
            gone.append(tensor if keeps else None)
            return parcel.get() if at_once else parcel

        def unpack(packed: Any) -> Tensor:
            return packed.get() if isinstance(packed, Parcel) else packed

        with saved_tensors_hooks(pack, unpack):
            return function(x)

    return moved


def _played(run: Moved) -> Any:
    """Every rank's outcome with these hooks."""

    def outcomes(least: int, size: int) -> list[Any]:
        with torch.random.fork_rng():
            found = []
            for rank in range(size):
                arguments = _arguments(least, rank, size)
                found.append(_outcome(arguments, run(*arguments)))
            return found

    return outcomes


OFFLOAD = Experiment(
    examples=lambda size: (192, 100, 10),
    arguments=_arguments,
    outcome=_outcome,
    expected=_played(_library),
    mistakes={
        "memory.offload.nothing": _played(lambda function, x, host, keep, least: function(x)),
        "memory.offload.weights": _played(_moving(weights=True)),
        "memory.offload.small": _played(_moving(small=True)),
        "memory.offload.everything": _played(_moving(weights=True, small=True)),
        "memory.offload.keeps": _played(_moving(keeps=True)),
        "memory.offload.at_once": _played(_moving(at_once=True)),
        "memory.offload.or_equal": _played(_moving(stays="equal")),
        "memory.offload.elements": _played(_moving(stays="elements")),
    },
)
