"""What functions on ranks that autograd goes through are compared by: what comes out, and every gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

Learned: TypeAlias = dict[str, Any]  # what came out, and the gradients of what went in


def numbers(seed: int, *shape: int) -> Tensor:
    """The same on every rank; no two alike."""
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def leaf(tensor: Tensor) -> Tensor:
    return tensor.clone().requires_grad_()


def learned(value: Any, gradient: Tensor, **inputs: Tensor) -> Learned | None:
    """What came out, and what the inputs' gradients are when its own is ``gradient``; without a path to them, 0."""
    if value is None:
        return None
    if isinstance(value, Tensor) and value.requires_grad and value.shape == gradient.shape:
        value.backward(gradient)
    kept = {f"gradient of {name}": zeros(one) if one.grad is None else one.grad for name, one in inputs.items()}
    return {"output": value, **kept}


def zeros(tensor: Tensor) -> Tensor:
    return torch.zeros_like(tensor.detach())


def alone(layer: Callable[..., Tensor], gradient: Tensor, **inputs: Tensor) -> Learned:
    """The same of a layer in one process."""
    leaves = {name: leaf(one) for name, one in inputs.items()}
    found = learned(layer(**leaves), gradient, **leaves)
    assert found is not None
    return {name: value.detach() for name, value in found.items()}


def changed(ranks: Sequence[Learned], **changes: Callable[[int, Tensor], Tensor]) -> list[Learned]:
    """Every rank's outcome with some of it changed; ``x`` is short for its gradient."""
    names = {short: short if short == "output" else f"gradient of {short}" for short in changes}
    return [
        {**one, **{names[short]: change(rank, one[names[short]]) for short, change in changes.items()}}
        for rank, one in enumerate(ranks)
    ]


def all_reduce_bytes(tensor: Tensor, size: int, times: int = 1) -> float:
    """Bytes that a rank sends for it, as a ring does."""
    return times * 2 * (size - 1) / size * tensor.numel() * tensor.element_size()
