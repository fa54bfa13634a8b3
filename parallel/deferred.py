"""Layers whose backward is in two halves: the gradient of the input at once, those of the weights when it is time.

    backward of y = x Wᵀ + b        BackwardInput     grad x = grad y · W                 the stage before waits for it
                                    ── owed: (layer, x, grad y) ──▶
                                    BackwardWeight    grad W += grad yᵀ · x, grad b += Σ grad y

x and grad y stay until then: that is the memory that a split backward costs. Autograd cannot do it for layers that it
knows as a whole; norms give both halves at once, which is cheap. Any other layer with weights gives them with its input
gradient, too, and there is less left to fill the bubble with.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_AT_ONCE = (nn.LayerNorm, nn.RMSNorm, nn.GroupNorm, nn.modules.batchnorm._BatchNorm)


@dataclass
class Owed:
    """The weight gradients that the layers of a chunk have put off, in the order of the backward pass."""

    entries: list[Entry] = field(default_factory=list)

    def take(self) -> list[Entry]:
        """What has been put off since the last time."""
        entries, self.entries = self.entries, []
        return entries


@runtime_checkable
class Deferring(Protocol):
    """A layer that can put off its weight gradients.

    owed: where its backward puts them; None: it computes them at once.
    """

    owed: Owed | None

    def parameters(self, recurse: bool = True) -> Iterable[nn.Parameter]: ...

    def add_weight_gradients(self, x: Tensor, gradient: Tensor) -> None:
        """Add to the gradients of its own parameters what this input and this gradient of the output make."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What a layer owes: the gradients of its parameters, from its input and the gradient of its output."""

    layer: Deferring
    x: Tensor
    gradient: Tensor

    @property
    def parameters(self) -> list[nn.Parameter]:
        return [parameter for parameter in self.layer.parameters(recurse=False) if parameter.requires_grad]

    def pay(self) -> None:
        with torch.no_grad():
            self.layer.add_weight_gradients(self.x, self.gradient)


class Linear(nn.Linear):
    """``nn.Linear``, same parameters and names; its weight gradients can wait."""

    owed: Owed | None = None

    def forward(self, x: Tensor) -> Tensor:
        """(…, in) → (…, out)."""
        return linear(x, self.weight, self.bias, self)

    def add_weight_gradients(self, x: Tensor, gradient: Tensor) -> None:
        rows = gradient.reshape(-1, self.out_features)
        if self.weight.requires_grad:
            add_gradient(self.weight, rows.t() @ x.reshape(-1, self.in_features))
        if self.bias is not None and self.bias.requires_grad:
            add_gradient(self.bias, rows.sum(0))


class Embedding(nn.Embedding):
    """``nn.Embedding``, same parameters and names; the gradient of its table can wait."""

    owed: Owed | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Numbers (…) → (…, dim)."""
        return lookup(x, self.weight, self.padding_idx, self)

    def add_weight_gradients(self, x: Tensor, gradient: Tensor) -> None:
        padding = -1 if self.padding_idx is None else self.padding_idx
        if self.weight.requires_grad:
            dense = torch.ops.aten.embedding_dense_backward
            add_gradient(self.weight, dense(gradient, x, self.num_embeddings, padding, self.scale_grad_by_freq))


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, layer: Deferring) -> Tensor:
    """``F.linear`` with a layer's weight, whose gradients wait if the layer's do."""
    if layer.owed is None or not torch.is_grad_enabled():
        return F.linear(x, weight, bias)
    out: Tensor = _LinearInput.apply(x, weight, bias, layer)  # type: ignore[no-untyped-call]
    return out


def lookup(x: Tensor, weight: Tensor, padding: int | None, layer: Deferring) -> Tensor:
    """``F.embedding`` of a layer's table, whose gradient waits if the layer's does."""
    if layer.owed is None or not torch.is_grad_enabled():
        return F.embedding(x, weight, padding)
    out: Tensor = _Lookup.apply(x, weight, padding, layer)  # type: ignore[no-untyped-call]
    return out


def put_off(layer: Deferring | None, x: Tensor, gradient: Tensor) -> bool:
    """Owe what ``x`` and ``gradient`` make of the layer's weights; False where it is not to wait."""
    if layer is None or layer.owed is None:
        return False
    layer.owed.entries.append(Entry(layer, x, gradient))
    return True


class _LinearInput(torch.autograd.Function):
    """y = x Wᵀ + b, with a backward that gives the gradient of x and owes the others."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, layer: Deferring) -> Tensor:
        ctx.layer = layer
        ctx.save_for_backward(x, weight)
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
            put_off(ctx.layer, x, gradient)
        return (gradient @ weight if ctx.needs_input_grad[0] else None), None, None, None


class _Lookup(torch.autograd.Function):
    """Rows of a table; its gradient is owed, and there is no other."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, padding: int | None, layer: Deferring) -> Tensor:
        ctx.layer = layer
        ctx.save_for_backward(x)
        return F.embedding(x, weight, padding)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        put_off(ctx.layer, x, gradient)
        return None, None, None, None


def add_gradient(parameter: Tensor, gradient: Tensor) -> None:
    """What autograd does with a gradient."""
    if parameter.grad is None:
        parameter.grad = gradient
    else:
        parameter.grad += gradient


def defer(module: nn.Module) -> tuple[Owed, list[str]]:
    """Let the layers of a module put off their weight gradients.

    ``nn.Linear`` and ``nn.Embedding`` become this file's, in place: parameters, names and hooks stay. A layer that is
    ``Deferring`` already is told where to put them.

    Returns:
        Where the layers put them, and the names of layers that cannot wait (norms are not counted).
    """
    owed, foreign = Owed(), []
    for name, layer in module.named_modules():
        if type(layer) is nn.Linear:
            layer.__class__ = Linear
        elif type(layer) is nn.Embedding and layer.max_norm is None and not layer.sparse:
            layer.__class__ = Embedding
        if isinstance(layer, Deferring):
            layer.owed = owed
        elif not isinstance(layer, _AT_ONCE) and any(True for _ in layer.parameters(recurse=False)):
            foreign.append(name or type(layer).__name__)
    return owed, foreign
